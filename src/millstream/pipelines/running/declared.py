"""A pipeline that a YAML file declares, started: sources as views, a query over them, its rows into a topic."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DataType, StructType

from millstream.pipelines.running.definition import AVAILABLE_NOW, Definition, Section, hint, view_name
from millstream.pipelines.running.failures import diagnose
from millstream.pipelines.running.job import Job
from millstream.pipelines.streams.cluster import Cluster
from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.stream import DELETED, ERROR, ORDER, TIME, Stream
from millstream.pipelines.streams.topic import Topic

#: Columns of ours that are no part of a record unless its schema names them.
_OURS = (TIME, DELETED, ERROR, ORDER)


def start(definition: Definition, job: Job, spark: SparkSession) -> StreamingQuery:
    """Start the pipeline; PipelineError with the line and key of what Spark refuses."""
    whole, sink = definition.whole, definition.sink
    dead: list[DataFrame] = []
    for source in definition.sources:
        with _at(source, "schema"):
            frame = _frame(source, job, dead)
            frame.createOrReplaceTempView(view_name(source))
    with _at(whole, "sql"):
        rows = spark.sql(whole.get("sql") or f"SELECT * FROM {view_name(definition.sources[0])}")
    if not rows.isStreaming:
        raise whole.error("sql", "reads no source that is a stream")
    with _at(sink, "schema"):
        topic = _target(sink, rows, job, whole.get("delivery", "exactly-once"))
        stream = Stream(rows, mode=sink.get("mode", "append"), dead=tuple(dead))
        trigger = whole.get("trigger")
        how = {"availableNow": True} if trigger == AVAILABLE_NOW else {"processingTime": trigger} if trigger else {}
        return stream.to(topic, name=job.name, **how)


def _frame(source: Section, job: Job, dead: list[DataFrame]) -> DataFrame:
    options = source.get("options", {})
    topic = Topic(
        source["topic"],
        cluster=Cluster(job.bootstrap, job.checkpoint, source=options),
        options=source.get("format_options", {}),
        key_options=source.get("key_options", {}),
        format=source.get("format") or ("json" if "schema" in source.values else "raw"),
        **source.given("schema", "key", "key_format", "time", "lateness", "errors", "start"),
    )
    if source.get("read") == "latest":
        return topic.global_table().df
    stream = topic.stream()
    dead.extend(stream.dead)
    return stream.df


def _target(sink: Section, rows: DataFrame, job: Job, delivery: str) -> Topic:
    """The topic that rows go to; what it does not say of its types, the query's columns say."""
    key = _columns(sink, rows) if "key" in sink.values else None
    keys = key.names if isinstance(key, StructType) else []
    value = [field for field in rows.schema.fields if field.name not in (*keys, *_OURS)]
    return Topic(
        sink["topic"],
        cluster=Cluster(job.bootstrap, job.checkpoint, sink={"delivery": delivery, **sink.get("options", {})}),
        schema=sink.get("schema") or StructType(value),
        key=key,
        options=sink.get("format_options", {}),
        key_options=sink.get("key_options", {}),
        **sink.given("format", "key_format"),
    )


def _columns(sink: Section, rows: DataFrame) -> str | StructType:
    """The columns of the key; bare names take their types from the query, anything else is a schema itself."""
    text: str = sink["key"]
    names = [name.strip() for name in text.split(",")]
    missing = [name for name in names if name not in rows.columns]
    if not missing:
        return StructType([rows.schema[name] for name in names])
    try:
        DataType.fromDDL(text)
    except ParseException:
        raise sink.error("key", f"no column {missing[0]}; {hint(missing[0], rows.columns)}") from None
    return text


@contextmanager
def _at(section: Section, key: str) -> Iterator[None]:
    """What is refused within is the fault of this key."""
    try:
        yield
    except (AnalysisException, ParseException, StreamsError) as error:
        diagnosis = diagnose(error, is_building=True)
        if not diagnosis.is_final:
            raise
        raise section.error(key, diagnosis.message) from None
