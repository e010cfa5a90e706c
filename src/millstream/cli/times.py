"""Moments and durations as people write and read them; a moment is milliseconds since the epoch."""

import re

DAY_MS = 86_400_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
#: ISO 8601's, as Kafka's own tools take them.
_ISO_DURATION = re.compile(r"P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_ISO_UNITS = ("w", "d", "h", "m", "s")
#: Twice as much is still a number of Kafka's.
_DURATION_MAX_MS = 1 << 62
_DIGITS = re.compile(r"\d{13}|\d{9,10}")


def moment_text(moment_ms: int) -> str:
    """A moment in UTC, to the millisecond: ``2026-01-31T12:00:00.000Z``; ``-`` for one that is not known."""
    if moment_ms < 0:
        return "-"
    from datetime import UTC, datetime

    try:
        moment = datetime.fromtimestamp(moment_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):  # A producer may send any number; it is shown as it is.
        return str(moment_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1000:03}Z"


def duration_text(duration_ms: int) -> str:
    """A duration to about two places, in the unit that fits: ``0.4s``, ``12s``, ``3m20s``, ``5h10m``, ``2d3h``."""
    seconds = duration_ms / 1000
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for size, large, small_size, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size}{large}" + (f"{rest}{small}" if rest else "")
    return f"{whole}s"


def parse_duration_ms(text: str) -> int:
    """``90s``, ``1.5h``, ``1d12h``, ``250ms``, ``PT1H30M`` in milliseconds; ValueError when it is no duration."""
    if iso := _ISO_DURATION.fullmatch(text):
        given = zip(iso.groups(), _ISO_UNITS, strict=True)
        return _bounded(sum(float(number) * _UNITS_MS[unit] for number, unit in given if number), text)
    if text.startswith("-"):
        raise ValueError(f"{text!r} is not a duration: leave the minus out, as in {text[1:] or '1h'}")
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write it as 500ms, 90s, 15m, 1.5h, 7d or PT1H")
    return _bounded(sum(float(number) * _UNITS_MS[unit] for number, unit in _DURATION_PART.findall(text)), text)


def _bounded(duration_ms: float, text: str) -> int:
    if duration_ms > _DURATION_MAX_MS:
        raise ValueError(f"{text!r} is longer than any log")
    return round(duration_ms)


def ago_ms(now_ms: int, duration_ms: int) -> int:
    """So long ago; 1970 when that is earlier still, as negative numbers mean other things on the wire."""
    return max(0, now_ms - duration_ms)


def parse_moment_ms(text: str, now_ms: int) -> int:
    """A moment: 13 digits (milliseconds), 9 or 10 (seconds), a date, a date and time (UTC unless it says otherwise),
    or a duration before ``now_ms`` (``-1h``). ValueError when it is none of these."""
    if _DIGITS.fullmatch(text):
        return int(text) if len(text) == 13 else int(text) * 1000
    if text.startswith("-"):
        return ago_ms(now_ms, parse_duration_ms(text[1:]))
    if text == "now":
        return now_ms
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write 2026-01-31, 2026-01-31T12:00:00Z, -1h or milliseconds since the epoch"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))
