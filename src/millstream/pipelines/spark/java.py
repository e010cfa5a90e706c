"""Classes of our own in Spark's Java, made by the compiler that Spark has for its queries."""

from typing import Any

from pyspark import SparkContext


def compiled(context: SparkContext, source: str) -> Any:
    """The class loader that has the classes of ``source``, and all that Spark sees."""
    jvm: Any = context._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(context._jsc.hadoopConfiguration().getClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader()
