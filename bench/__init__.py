"""Benchmarks: the broker beside a bare Python ceiling and Apache Kafka, under the same clients in the same run."""
