"""A connector's query, started: a source's records into topics, or topics into a sink."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.client.groups import commit_offsets, committed_offsets
from millstream.model.ids import TopicPartition
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.job import Job, Place
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.patterns import compile_pattern
from millstream.pipelines.connect.settings import (
    AUTO_OFFSET_RESET,
    BATCH_INTERVAL_MS,
    MAX_POLL_RECORDS,
    TOPICS,
    TOPICS_REGEX,
    sink_group,
)
from millstream.pipelines.connect.spark import checkpoint, leftovers
from millstream.pipelines.connect.spark.assembly import JOB_OPTION, queries_prefix, query_of
from millstream.pipelines.connect.spark.sink import ConnectSink
from millstream.pipelines.connect.spark.source import ConnectSource
from millstream.pipelines.spark.cluster import ClusterOrigin
from millstream.pipelines.spark.options import stream_options
from millstream.pipelines.spark.planning import Offsets, to_document
from millstream.pipelines.spark.sink.process import SinkProcess

#: What a sink is given in a batch at most, over all partitions.
BATCH_RECORDS = MAX_POLL_RECORDS.default
#: How often a sink is given a batch, where its config says so; else as soon as there is something.
INTERVAL_NAME = BATCH_INTERVAL_MS.name
_RESET, _RECORDS = AUTO_OFFSET_RESET.name, MAX_POLL_RECORDS.name
_CONSUMER, _PRODUCER = "consumer.override.", "producer.override."


def start_source(job: Job, spark: SparkSession) -> StreamingQuery:
    """Start to bring a source's records into topics."""
    spark.dataSource.register(ConnectSource)
    line = job.to_line().decode()
    rows = spark.readStream.format(ConnectSource.name()).option(JOB_OPTION, line).load()
    writing = rows.writeStream.format(ConnectSource.name()).option(JOB_OPTION, line)
    return _start(job, writing.options(**_overrides(job, _PRODUCER)))


def start_sink(job: Job, spark: SparkSession, topics: Mapping[str, str]) -> StreamingQuery:
    """Start to give topics to a sink; ``topics`` are options of ``sink_options``."""
    spark.dataSource.register(ConnectSink)
    line = job.to_line().decode()
    rows = spark.readStream.format(ConnectSink.name()).option(JOB_OPTION, line).options(**topics).load()
    writing = rows.writeStream.format(ConnectSink.name()).option(JOB_OPTION, line).options(**topics)
    interval_ms = job.config.get(INTERVAL_NAME)
    if interval_ms is not None:
        if not interval_ms.isdigit():
            raise Misconfigured(f"{INTERVAL_NAME}={interval_ms}: must be a whole number")
        writing = writing.trigger(processingTime=f"{interval_ms} milliseconds")
    return _start(job, writing)


def _start(job: Job, writing: Any) -> StreamingQuery:
    place = checkpoint.folder_of(job.folder)
    query: StreamingQuery = writing.queryName(job.name).option("checkpointLocation", f"file://{place}").start()
    return query


def _overrides(job: Job, prefix: str) -> dict[str, str]:
    """Settings of Kafka's clients that a config gives, as format("millstream") takes them."""
    return {f"kafka.{name[len(prefix) :]}": text for name, text in job.config.items() if name.startswith(prefix)}


# Sinks: where their topics are read.


def topic_options(job: Job, config: Config) -> dict[str, str]:
    """How a sink's topics are read, but for where they begin."""
    topics, pattern = config[TOPICS], config[TOPICS_REGEX]
    if bool(topics) == bool(pattern):
        raise Misconfigured("Must configure one of topics or topics.regex")
    overrides = _overrides(job, _CONSUMER)
    for name in (_RESET, _RECORDS):
        overrides.pop(f"kafka.{name[len(_CONSUMER) :]}", None)
    which = {"subscribe": ",".join(topics)} if topics else {"subscribePattern": compile_pattern(pattern).pattern}
    return {
        "kafka.bootstrap.servers": job.bootstrap,
        "kafka.isolation.level": "read_committed",
        "maxOffsetsPerTrigger": job.config.get(_RECORDS, str(BATCH_RECORDS)),
        # What retention took before it was read is lost in any case; it says so in the log, and goes on.
        "failOnDataLoss": str(job.config.get(_RESET) == "none").lower(),
        "includeHeaders": "true",
        "groupIdPrefix": sink_group(job.config),
        "startingOffsets": "{}",
        **which,
        **overrides,
    }


def beginning(here: SinkProcess, job: Job, topics: Mapping[str, str]) -> Offsets:
    """Where a new generation of a sink begins, in each partition there is: as told, else where its group is."""
    options = stream_options(topics)
    origin = ClusterOrigin(options)
    try:
        partitions = origin.partitions(options.selection, must_exist=False)
        found = origin.latest(partitions) if job.config.get(_RESET) == "latest" else origin.earliest(partitions)
    finally:
        origin.close()
    committed = here.run(committed_offsets(here.coordinators, sink_group(job.config)))
    found |= {tp: committed[tp].offset for tp in found if tp in committed}
    told = {tp: offset for tp, offset in map(_place, job.offsets or ()) if tp in found}
    return found | {tp: offset for tp, offset in told.items() if offset is not None}


def _place(place: Place) -> tuple[TopicPartition, int | None]:
    partition, offset = place["partition"], place["offset"]
    tp = TopicPartition(str(partition["kafka_topic"]), int(partition["kafka_partition"]))
    return tp, None if offset is None else int(offset["kafka_offset"])


def starting_at(topics: Mapping[str, str], offsets: Offsets) -> dict[str, str]:
    """The options of topics that are read from there on."""
    return {**topics, "startingOffsets": json.dumps(to_document(offsets))}


def commit_group(here: SinkProcess, job: Job, offsets: Offsets) -> None:
    """Show how far a sink is."""
    if offsets:
        here.run(commit_offsets(here.coordinators, sink_group(job.config), offsets))


# What earlier lives left.


def settle(here: SinkProcess, job: Job) -> None:
    """End what other generations of the connector have left open: it would hold readers back for ever."""
    mine = checkpoint.query_id(job.folder)
    own = query_of(job, mine) if mine else None
    queries = here.run(leftovers.open_queries(here.coordinators, queries_prefix(job.group, job.name)))
    here.run(leftovers.settle([query for query in queries if query != own], here.driver))


def forget_older(job: Job) -> None:
    """Remove the progress of generations before this one."""
    folder = os.path.dirname(job.folder)
    for name in os.listdir(folder):
        if name.isdigit() and int(name) < job.generation:
            with suppress(OSError):
                shutil.rmtree(os.path.join(folder, name))
