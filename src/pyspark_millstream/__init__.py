"""Where Spark finds ``format("millstream")`` by itself: it looks into every module named ``pyspark_*``."""

from millstream.pipelines.spark.source import MillstreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
