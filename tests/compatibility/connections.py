"""Connections by hand to whichever broker a request must go to, found as clients find it."""

from __future__ import annotations

import struct
import time
import uuid
from contextlib import ExitStack
from typing import NamedTuple

from tests.compatibility.wire import FIND_COORDINATOR, METADATA, Batch, Cursor, Wire, batches, fetch, string

#: The coordinator loads, is not there yet, or is another; a topic or its leader is not known yet.
NOT_YET = {3, 5, 14, 15, 16}
GROUP, TRANSACTION = 0, 1
PATIENCE_S = 30.0


class Connections:
    """Connections that are closed together; a test that asks twice gets two."""

    def __init__(self, bootstrap: str, *, timeout_s: float = 10) -> None:
        self._bootstrap = bootstrap.split(",")
        self._timeout_s = timeout_s
        self._open = ExitStack()

    def to_any(self) -> Wire:
        return self._to(self._bootstrap[0])

    def to_leader(self, topic: str, partition: int = 0) -> Wire:
        return self._to(leader_of(self._bootstrap[0], topic, partition))

    def to_coordinator(self, key: str, kind: int = GROUP) -> Wire:
        return self._to(self.coordinator_of(key, kind))

    def coordinator_of(self, key: str, kind: int = GROUP) -> str:
        return coordinator_of(self._bootstrap[0], key, kind)

    def group_beside(self, group: str) -> str:
        """A group that nobody was in, at the same coordinator as another."""
        wanted = self.coordinator_of(group)
        while self.coordinator_of(found := f"g-{uuid.uuid4().hex[:12]}") != wanted:
            pass
        return found

    def close(self) -> None:
        self._open.close()

    def _to(self, address: str) -> Wire:
        return self._open.enter_context(Wire(address, timeout_s=self._timeout_s))


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> str:
    """The address of the broker that leads a partition, as any broker tells it."""
    with Wire(bootstrap.split(",")[0]) as wire:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = wire.call(METADATA, 4, struct.pack(">i", 1) + string(topic) + b"\x00")
            code, brokers, leaders = metadata(answer, topic)
            if leaders.get(partition) in brokers:
                return brokers[leaders[partition]]
            assert code in {0, *NOT_YET} and time.monotonic() < deadline, f"{topic}-{partition} has no leader: {code}"
            time.sleep(0.02)


class Metadata(NamedTuple):
    code: int
    brokers: dict[int, str]
    leaders: dict[int, int]


def metadata(answer: Cursor, topic: str) -> Metadata:
    """The body of a Metadata v4 answer for one topic: its error, all brokers' addresses, and who leads what."""
    answer.int32()  # throttle time
    brokers: dict[int, str] = {}
    for _ in range(answer.int32()):
        broker = answer.int32()
        brokers[broker] = f"{answer.string()}:{answer.int32()}"
        answer.string()  # rack
    answer.string(), answer.int32()  # cluster id, controller
    assert answer.int32() == 1
    code = answer.int16()
    assert answer.string() == topic
    answer.int8()  # is internal
    leaders: dict[int, int] = {}
    for _ in range(answer.int32()):
        answer.int16()
        partition = answer.int32()
        leaders[partition] = answer.int32()
        answer.take(4 * answer.int32()), answer.take(4 * answer.int32())  # replicas, in sync
    return Metadata(code, brokers, leaders)


def coordinator_of(bootstrap: str, key: str, kind: int = GROUP) -> str:
    """The address of the broker that coordinates a group or a transactional id, as any broker tells it."""
    with Wire(bootstrap.split(",")[0]) as wire:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = wire.call(FIND_COORDINATOR, 2, string(key) + struct.pack(">b", kind))
            answer.int32()  # throttle time
            code = answer.int16()
            answer.string(), answer.int32()  # the error in words, the broker's id
            if code == 0:
                return f"{answer.string()}:{answer.int32()}"
            assert code in NOT_YET and time.monotonic() < deadline, f"nobody coordinates {key}: {code}"
            time.sleep(0.05)


def batches_of(bootstrap: str, topic: str) -> list[Batch]:
    """Every batch of a small topic's partition 0, as a consumer is sent it."""
    found: list[Batch] = []
    with Wire(leader_of(bootstrap, topic)) as wire:
        while more := batches(fetch(wire, topic, found[-1].last_offset + 1 if found else 0).records):
            found += more
    return found
