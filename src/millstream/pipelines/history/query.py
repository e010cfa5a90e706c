"""A query from its text to its rows: first what can be known without Spark, then Spark."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from millstream.pipelines.history.calls import Call, rewrite
from millstream.pipelines.history.snapshot import Moments, Snapshot, take
from millstream.pipelines.history.tables import check, table
from millstream.pipelines.spark.source import origin_of


@dataclass(frozen=True)
class Query:
    """A query whose topics are there, with the tables that it reads as they were when it was prepared."""

    sql: str
    tables: Mapping[str, tuple[Call, Snapshot]]

    @property
    def offsets(self) -> int:
        """How many offsets its tables span; no more records than these can be read of each."""
        return sum(snapshot.offsets for _, snapshot in self.tables.values())

    def rows(self, spark: SparkSession) -> DataFrame:
        """The query's result, which is computed when it is asked for."""
        for name, (call, snapshot) in self.tables.items():
            table(spark, call, snapshot.options).createOrReplaceTempView(f"`{name}`")
        return spark.sql(self.sql)


def prepare(sql: str, options: Mapping[str, str], moments: Moments) -> Query:
    """Read the query's text and look up its topics; QueryError for whatever is wrong with them.

    ``options`` are the source's: ``kafka.bootstrap.servers`` or ``path``, and what holds for every topic.
    """
    rewritten = rewrite(sql)
    for call in rewritten.calls.values():
        check(call)
    found = {name: (call, take(call, options, origin_of, moments)) for name, call in rewritten.calls.items()}
    return Query(rewritten.sql, found)
