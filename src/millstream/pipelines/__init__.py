"""Data pipelines over topics: the Spark source and sink, and what is built on them."""
