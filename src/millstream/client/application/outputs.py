"""What a transformation returns, and how it is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from millstream.client.application import arguments
from millstream.client.application.producer import HeadersToSend, Producer
from millstream.client.application.record import Record

#: A record in; out comes a value, an Output, the record itself, a list of any of these, or None.
Transform: TypeAlias = Callable[[Record], Any]

KEEP: Any = type("Keep", (), {"__repr__": lambda _: "KEEP"})()


@dataclass(frozen=True, slots=True)
class Output:
    """A record to be sent in place of one that was read; whatever is not given stays as it was read."""

    value: Any = None
    key: Any = KEEP
    headers: HeadersToSend = KEEP
    topic: str | None = None
    partition: int | None = None
    timestamp: datetime | int = KEEP


def send_output(producer: Producer, sink: str, record: Record, output: Any) -> int:
    """Send what a transformation returned; how many records that were."""
    if output is None:
        return 0
    if isinstance(output, list):
        return sum(send_output(producer, sink, record, one) for one in output)
    if isinstance(output, Record):
        producer.send_serialized(
            sink,
            output.raw_value,
            output.raw_key,
            headers=output.headers,
            timestamp_ms=max(0, output.timestamp_ms),
        )
        return 1
    if not isinstance(output, Output):
        output = Output(output)
    topic = output.topic or sink
    timestamp_ms = record.timestamp_ms if output.timestamp is KEEP else arguments.milliseconds(output.timestamp)
    producer.send_serialized(
        topic,
        producer.value_bytes(output.value, topic),
        record.raw_key if output.key is KEEP else producer.key_bytes(output.key, topic),
        headers=record.headers if output.headers is KEEP else arguments.headers(output.headers),
        partition=output.partition,
        timestamp_ms=max(0, timestamp_ms),
    )
    return 1
