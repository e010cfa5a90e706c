"""What still lies before a reader: the first record it would be given, which a transaction's marker is not."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as WirePartition

from millstream.client.application.settings import heard, made
from millstream.model.ids import TopicPartition

SLICE_S = 0.1


def first_unread(
    settings: Mapping[str, Any], positions: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int | None]:
    """The offset of the first committed record at or after each position; None where there is none.

    A partition that did not answer in time, or whose next record's transaction is open, is left out.
    """
    own = {"group.id": f"millstream-{uuid.uuid4().hex}", "enable.auto.commit": False, "enable.partition.eof": True}
    small = {"fetch.message.max.bytes": 65_536, "isolation.level": "read_committed"}
    reader = made(Consumer, {**settings, **own, **small})
    found: dict[TopicPartition, int | None] = {}
    deadline_s = time.monotonic() + timeout_s
    try:
        reader.assign([WirePartition(*tp, offset) for tp, offset in positions.items()])
        while len(found) < len(positions) and time.monotonic() < deadline_s:
            for message in heard(reader.consume, 100, SLICE_S, doing="looking for what is still to be read"):
                tp = TopicPartition(str(message.topic()), message.partition() or 0)
                error = message.error()
                if error is None:
                    found.setdefault(tp, message.offset())
                elif error.code() == KafkaError._PARTITION_EOF:
                    found.setdefault(tp, None)
    finally:
        reader.close()
    return found
