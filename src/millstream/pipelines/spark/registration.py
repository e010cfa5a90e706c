"""``format("millstream")`` made known to a session, with writers that are made once and not for every micro-batch.

For each micro-batch Spark has a Python process make a writer of its query's options, to send it to the tasks: 2.5 ms of
a micro-batch of 18, for a writer that is the same each time. What it registers for a data source in Python is an object
in Java that is asked for that; ours asks once for each query and remembers.
"""

from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from millstream.pipelines.spark.java import compiled
from millstream.pipelines.spark.source import MillstreamDataSource

NAME = "millstream.KeptWriters"
#: What is asked has all that a stream's writer is made of. A batch's writer is another one each time.
_SOURCE = """
package millstream;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceWriteInfo;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class KeptWriters extends UserDefinedPythonDataSource {
    private static final int KEPT_MAX = 64;
    private final Map kept = new LinkedHashMap();

    public KeptWriters(UserDefinedPythonDataSource plain) {
        super(plain.dataSourceCls());
    }

    public PythonDataSourceWriteInfo createWriteInfoInPython(
            String provider,
            StructType schema,
            CaseInsensitiveStringMap options,
            boolean overwrite,
            boolean streaming) {
        if (!streaming) {
            return super.createWriteInfoInPython(provider, schema, options, overwrite, streaming);
        }
        List asked = Arrays.asList(new Object[] {provider, schema, options, Boolean.valueOf(overwrite)});
        synchronized (kept) {
            PythonDataSourceWriteInfo made = (PythonDataSourceWriteInfo) kept.get(asked);
            if (made != null) {
                return made;
            }
        }
        PythonDataSourceWriteInfo made =
            super.createWriteInfoInPython(provider, schema, options, overwrite, streaming);
        synchronized (kept) {
            if (kept.size() >= KEPT_MAX) {
                kept.remove(kept.keySet().iterator().next());
            }
            kept.put(asked, made);
        }
        return made;
    }

    /** Executors are sent what they know. The compiler makes private methods into others. */
    protected Object writeReplace() {
        return new UserDefinedPythonDataSource(dataSourceCls());
    }
}
"""


def register(spark: SparkSession) -> None:
    """Have the session know the data source; where no class can be made for it, as Spark registers any other."""
    spark.dataSource.register(MillstreamDataSource)
    with suppress(Exception):
        _keep_writers(spark)


def _keep_writers(spark: SparkSession) -> None:
    session: Any = spark._jsparkSession
    known = session.sessionState().dataSourceManager()
    plain = known.lookupDataSource(MillstreamDataSource.name())
    made = compiled(spark.sparkContext, _SOURCE).loadClass(NAME).getConstructors()[0]
    arguments = spark.sparkContext._gateway.new_array(spark._jvm.Object, 1)  # type: ignore[union-attr]
    arguments[0] = plain
    session.dataSource().registerPython(MillstreamDataSource.name(), made.newInstance(arguments))
