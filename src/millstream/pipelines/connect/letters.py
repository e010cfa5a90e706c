"""Records as they lie in topics, and dead letters: those that were passed over, with what happened to them."""

import traceback
from dataclasses import dataclass, field

from millstream.pipelines.connect.tolerance import Failure

PREFIX = "__connect.errors."


@dataclass(slots=True)
class Raw:
    """A record as bytes.  On its way into a topic it has no offset, and may have no partition and no timestamp."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


def dead_letter(topic: str, raw: Raw, failure: Failure | None, connector: str, task: int) -> Raw:
    """The record as it was, for the topic of dead letters; with headers that tell of the failure unless it is None."""
    headers = list(raw.headers)
    if failure is not None:
        headers += _context(raw, failure, connector, task)
    return Raw(topic, raw.key, raw.value, headers, timestamp_ms=raw.timestamp_ms)


def _context(raw: Raw, failure: Failure, connector: str, task: int) -> list[tuple[str, bytes | None]]:
    error = failure.error
    told = {
        "topic": raw.topic,
        "partition": str(raw.partition),
        "offset": str(raw.offset),
        "connector.name": connector,
        "task.id": str(task),
        "stage": failure.stage,
        "class.name": failure.class_name,
        "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": str(error),
        "exception.stacktrace": "".join(traceback.format_exception(error)),
    }
    return [(PREFIX + name, text.encode(errors="backslashreplace")) for name, text in told.items()]
