"""Connectors: data brought into topics and out of them, each by a supervised Spark query of its own."""
