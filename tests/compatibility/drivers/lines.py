"""Clients of other languages: one process for a session, asked and answering in lines of JSON.

A question is ``{"id", "call", ...arguments}``; the answer carries the same id and either ``result`` or ``code`` and
``message``. Keys, values and header values are base64, or null.
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.compatibility.drivers.base import (
    ALL_ACKS,
    At,
    Cluster,
    Driver,
    Group,
    Partition,
    Reader,
    Received,
    Record,
    Refused,
    Start,
)

ROOT = Path(__file__).parents[3]


def to_text(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode()


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


class Lines:
    """A process that answers one question after the other, until it is told that there are no more."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        self._name = name
        self._asked = 0
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
        )

    def ask(self, call: str, **arguments: object) -> Any:
        """Its answer; an error it reports is ``Refused``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(json.dumps({"id": self._asked, "call": call, **arguments}) + "\n")
        for line in self._process.stdout:
            answer = json.loads(line)
            assert answer["id"] == self._asked, f"an answer to another question: {line}"
            if "code" in answer:
                raise Refused(int(answer["code"]), answer["message"])
            return answer["result"]
        raise AssertionError(f"the {self._name} process ended with {self._process.wait()} at {call}")

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()  # The end of the questions is the end of the process.
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


class LinesReader(Reader):
    def __init__(self, driver: LinesDriver, topic: str, partition: int, start: Start) -> None:
        self._driver = driver
        place = {"at_ms": start.timestamp_ms} if isinstance(start, At) else {"offset": start}
        self._reader = driver.ask("open", topic=topic, partition=partition, **place)

    def poll(self, timeout_s: float) -> list[Received]:
        rows = self._driver.ask("poll", reader=self._reader, timeout_ms=int(timeout_s * 1000))
        return [
            Received(
                int(row["offset"]),
                to_bytes(row["value"]),
                to_bytes(row["key"]),
                tuple((name, to_bytes(value)) for name, value in row["headers"]),
                int(row["timestamp_ms"]),
            )
            for row in rows
        ]

    def close(self) -> None:
        self._driver.ask("close", reader=self._reader)


class LinesDriver(Driver):
    """All the calls, passed on; what a client lacks, its class takes away."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._lines = Lines(self.command(bootstrap), self.name)
        self.ask = self._lines.ask

    @classmethod
    def command(cls, bootstrap: str) -> list[str]:
        raise NotImplementedError

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = ALL_ACKS,
        idempotent: bool = False,
    ) -> list[int]:
        rows = [
            {
                "key": to_text(record.key),
                "value": to_text(record.value),
                "headers": [[name, to_text(value)] for name, value in record.headers],
                "timestamp_ms": record.timestamp_ms,
            }
            for record in records
        ]
        offsets = self.ask(
            "produce", topic=topic, partition=partition, codec=codec, acks=acks, idempotent=idempotent, records=rows
        )
        return [int(offset) for offset in offsets]

    def read(self, topic: str, start: Start, *, partition: int = 0) -> Reader:
        return LinesReader(self, topic, partition, start)

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        return int(self.ask("list_offset", topic=topic, partition=partition, timestamp=timestamp))

    def create_topic(
        self, topic: str, *, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        self.ask("create_topic", topic=topic, partitions=partitions, replicas=replicas, configs=dict(configs or {}))

    def delete_topic(self, topic: str) -> None:
        self.ask("delete_topic", topic=topic)

    def create_partitions(self, topic: str, total: int) -> None:
        self.ask("create_partitions", topic=topic, total=total)

    def list_topics(self) -> set[str]:
        return set(self.ask("list_topics"))

    def describe_topic(self, topic: str) -> list[Partition]:
        return [
            Partition(row["index"], row["leader"], tuple(row["replicas"]), tuple(row["in_sync"]))
            for row in self.ask("describe_topic", topic=topic)
        ]

    def describe_cluster(self) -> Cluster:
        found = self.ask("describe_cluster")
        return Cluster(found["cluster_id"], found["controller"], {int(k): v for k, v in found["brokers"].items()})

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return dict(self.ask("describe_configs", topic=topic))

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return dict(self.ask("describe_configs", broker=broker))

    def list_groups(self) -> set[str]:
        return set(self.ask("list_groups"))

    def describe_group(self, group: str) -> Group:
        return Group(**self.ask("describe_group", group=group))

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        found = self.ask("group_offsets", group=group, topic=topic)
        return {int(partition): int(offset) for partition, offset in found.items()}

    def set_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        self.ask("set_group_offsets", group=group, topic=topic, offsets=dict(offsets))

    def delete_group(self, group: str) -> None:
        self.ask("delete_group", group=group)

    def close(self) -> None:
        self._lines.close()
