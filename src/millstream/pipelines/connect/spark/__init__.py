"""Connectors as queries of Spark: what reads and writes in its workers, and what plans and commits in its driver."""
