"""The Spark sink without Spark: tasks and a driver in one process, for one query, at any brokers."""

import time
from typing import Any
from uuid import uuid4

import pyarrow as pa

from millstream.client.producing import standings
from millstream.model.clock import SystemClock
from millstream.pipelines.spark.sink.coordinator import Decisions, Driver, free_ids, standing_of
from millstream.pipelines.spark.sink.lone import LoneTask
from millstream.pipelines.spark.sink.options import SinkOptions, sink_options
from millstream.pipelines.spark.sink.process import SinkProcess, sink_process
from millstream.pipelines.spark.sink.protocol import (
    Decide,
    Fate,
    Plan,
    Transaction,
    abort_plan,
    commit_plan,
    fate_of,
    is_free,
)
from millstream.pipelines.spark.sink.tasks import Done, Layout, write_rows
from tests.pipelines.records import values_of
from tests.pipelines.topics import Topics

LAYOUT = Layout({"key": 0, "value": 1})


class Sink:
    """Tasks and a driver, in one process, for one query."""

    def __init__(self, address: str, query: str = "", **options: str) -> None:
        self.address = address
        self.topic = Topics(address).new(2, name=f"sink-{uuid4().hex}")
        self.query = query or self.topic
        self.options: SinkOptions = sink_options({"kafka.bootstrap.servers": address, "topic": self.topic, **options})
        self.process: SinkProcess = sink_process(self.options)

    def write(self, *values: bytes, batch: int = 0) -> Transaction:
        rows = pa.record_batch({"key": pa.array(values), "value": pa.array(values)})
        done = write_rows(self.process, self.options, LAYOUT, self.query, batch, iter([rows]), 0, True)
        assert done.transaction is not None
        return done.transaction

    def commit(self, batch: int, *mine: Transaction) -> None:
        self.process.run(self.process.driver(self.query).commit(batch, mine))

    def decide(self, batch: int, *mine: Transaction) -> None:
        """What a driver does that dies over the end of the batch."""
        self.process.run(self.process.driver(self.query).carry_out(_up_to_decision(commit_plan(batch, mine))))

    def settle(self, batch: int, *values: bytes, by: SinkProcess | None = None, is_alone: bool = True) -> Done:
        """What a lone task does."""
        here, chunk = by or self.process, None
        if values:
            rows = pa.table({"key": pa.array(values), "value": pa.array(values)})
            chunk = LAYOUT.chunk(rows, has_topic=True)
        return here.run(LoneTask(here, self.options, chunk, 0, lambda: is_alone).commit(self.query, batch))

    def rival(self) -> Driver:
        """Another driver of the query, on the same connections."""
        coordinators = self.process.coordinators
        return Driver(coordinators, Decisions(coordinators, self.options.decisions_topic), self.query, SystemClock())

    def abort(self, batch: int, *mine: Transaction) -> None:
        self.process.run(self.process.driver(self.query).carry_out(abort_plan(batch, mine)))

    def await_end(self, transaction: Transaction) -> None:
        """Apache Kafka says that a transaction is committed before its markers are written, and its id free."""
        while not is_free(self.process.run(free_ids(self.process.coordinators, [transaction.id]))[transaction.id]):
            time.sleep(0.01)

    def fate(self, transaction: Transaction) -> Fate:
        rows = self.process.run(standings(self.process.coordinators, [transaction.id]))
        return fate_of(transaction, standing_of(rows.get(transaction.id)))

    def values(self) -> list[bytes | None]:
        return values_of(self.address, self.topic)


def _up_to_decision(plan: Plan) -> Plan:
    answer: Any = None
    while True:
        step = plan.send(answer)
        answer = yield step
        if isinstance(step, Decide):
            return
