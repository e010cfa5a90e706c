"""What Apache Kafka 4.3 wrote into its internal topics, as ``tests/compatibility/record_coordinators`` found it."""

from pathlib import Path
from typing import NamedTuple


class RecordedRecord(NamedTuple):
    """One record as it lay in the log."""

    topic: str
    key: bytes
    value: bytes | None


def recorded(topic: str) -> list[RecordedRecord]:
    """What was kept of a topic, in the order it was written."""
    lines = (line.split() for line in Path(__file__).with_name("internal_topics.txt").read_text().splitlines())
    return [
        RecordedRecord(name, bytes.fromhex(key), None if value == "-" else bytes.fromhex(value))
        for name, key, value in lines
        if name == topic
    ]
