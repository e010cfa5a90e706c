"""Arguments that cannot be, refused by name before librdkafka is asked: it cuts names at a NUL and says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from millstream.client.application.errors import BadSetting

#: What the protocol's strings can hold.
NAME_BYTES_MAX = 32_767


def name(what: str, given: Any) -> str:
    """The name of a topic, a group, a producer."""
    if not isinstance(given, str):
        raise BadSetting(f"{what}={given!r} is no name: it wants text, and this is {_kind(given)}")
    if not given or "\0" in given:
        raise BadSetting(f"{what}={given!r} is no name: it {'holds a NUL' if given else 'is empty'}")
    if len(given) > NAME_BYTES_MAX // 4 and len(given.encode(errors="replace")) > NAME_BYTES_MAX:
        raise BadSetting(f"{what}={given[:20]!r}… is longer than the {NAME_BYTES_MAX} bytes a name may have")
    return given


def count(what: str, given: Any, least: int) -> int:
    """A whole number of at least ``least``."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise BadSetting(f"{what}={given!r} is not a whole number of at least {least}")
    return given


def seconds(what: str, given: Any) -> float | None:
    """A time to wait; None for no end."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise BadSetting(f"{what}={given!r} is not a number of seconds")
    return float(given)


def called(what: str, given: Any) -> Any:
    """Something that can be called."""
    if not callable(given):
        raise BadSetting(f"{what}={given!r} cannot be called: give a function")
    return given


def headers(given: Any) -> list[tuple[str, str | bytes | None]]:
    """Headers as a list, which may name one twice."""
    pairs = given.items() if isinstance(given, Mapping) else given
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise BadSetting(f"headers={given!r} are neither a mapping nor pairs of a name and a value")
    found = list(pairs)
    for pair in found:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise BadSetting(f"headers: {pair!r} is not a pair of a name and a value")
        if not isinstance(pair[0], str) or "\0" in pair[0]:
            raise BadSetting(f"headers: {pair[0]!r} is no name")
        if not isinstance(pair[1], str | bytes | None):
            raise BadSetting(f"headers: the value of {pair[0]!r} is {_kind(pair[1])}; give bytes, text or None")
    return found


def milliseconds(given: Any) -> int:
    """A moment as Kafka counts it: an aware time, or milliseconds since 1970."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise BadSetting(f"timestamp={given} has no time zone; give an aware time, as datetime.now(UTC)")
        given = int(given.timestamp() * 1000)
    elif isinstance(given, bool) or not isinstance(given, int):
        raise BadSetting(f"timestamp={given!r} is {_kind(given)}; give a datetime, or whole milliseconds since 1970")
    if not 0 <= given < 1 << 63:
        raise BadSetting(f"timestamp={given!r} is not a moment since 1970")
    return int(given)


def _kind(of: object) -> str:
    return f"of type {type(of).__name__}"
