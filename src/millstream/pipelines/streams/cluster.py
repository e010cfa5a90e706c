"""Where topics are: a Kafka cluster, or whatever stands in for it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_FORMAT = "millstream"
_QUERY_ID = "sql.streaming.queryId"


def _default_bootstrap() -> str:
    return os.environ.get("MILLSTREAM_BOOTSTRAP", "127.0.0.1:9092")


def _default_checkpoints() -> str:
    return os.environ.get("MILLSTREAM_CHECKPOINTS", "millstream-checkpoints")


class _Batches:
    """Writes each micro-batch as a job of its own, known by the query and the batch's number, and so only once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def __call__(self, rows: DataFrame, number: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        assert query, "Spark says which query a micro-batch is of"
        writer = rows.write.format(_FORMAT).mode("append").options(**self._options)
        writer.options(txnAppId=query, txnVersion=str(number)).save()


@dataclass(frozen=True)
class Cluster:
    """A cluster by its addresses, the session that reads it, and where queries keep how far they are.

    ``source`` and ``sink`` are options of ``format("millstream")`` for everything read and written.
    """

    bootstrap: str = field(default_factory=_default_bootstrap)
    checkpoints: str = field(default_factory=_default_checkpoints)
    source: Mapping[str, str] = field(default_factory=dict)
    sink: Mapping[str, str] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """The session of this process; one is made with Millstream's defaults where there is none."""
        from millstream.pipelines.spark.session import spark_session

        return SparkSession.getActiveSession() or spark_session()

    def read_stream(self, topic: str, options: Mapping[str, str]) -> DataFrame:
        """A topic's records as they come: key, value, topic, partition, offset, timestamp and headers."""
        reader = self.spark.readStream.format(_FORMAT).options(**self._source(topic, options))
        return reader.load()

    def read(self, topic: str, options: Mapping[str, str]) -> DataFrame:
        """A topic's records from its start to its end, as a batch."""
        return self.spark.read.format(_FORMAT).options(**self._source(topic, options)).load()

    def write(self, records: DataFrame, name: str, mode: str, trigger: Mapping[str, Any]) -> StreamingQuery:
        """Start the query of that name; it writes rows of topic, key, value, exactly once unless ``sink`` differs."""
        options = {"kafka.bootstrap.servers": self.bootstrap, **self.sink}
        writer = records.writeStream.queryName(name).outputMode(mode)
        if mode == "append":
            writer = writer.format(_FORMAT).options(**options)
        else:  # Spark hands other modes' rows to no sink written in Python, but to functions it does.
            writer = writer.foreachBatch(_Batches(options))
        writer = writer.option("checkpointLocation", f"{self.checkpoints}/{name}")
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def _source(self, topic: str, options: Mapping[str, str]) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": topic,
            "kafka.isolation.level": "read_committed",
            **self.source,
            **options,
        }


_stand_in: ContextVar[Cluster | None] = ContextVar("millstream_stand_in", default=None)


@contextmanager
def standing_in(cluster: Cluster) -> Iterator[None]:
    """Within, every topic is this cluster's, whatever it was declared with."""
    token = _stand_in.set(cluster)
    try:
        yield
    finally:
        _stand_in.reset(token)


def cluster_of(declared: Cluster | str | None) -> Cluster:
    """The stand-in, if there is one; else what was declared; else the default."""
    stand_in = _stand_in.get()
    if stand_in is not None:
        return stand_in
    if isinstance(declared, Cluster):
        return declared
    return Cluster(declared) if declared else Cluster()
