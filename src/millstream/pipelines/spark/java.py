"""Classes of our own in Spark's Java, made by the compiler that Spark has for its queries."""

from typing import Any

from pyspark.sql import SparkSession


def compiled(spark: SparkSession, source: str) -> Any:
    """The class loader that has the classes of ``source``, and all that Spark sees."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(spark.sparkContext._jsc.hadoopConfiguration().getClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader()
