"""How a record is printed: kcat's format strings, compiled once into a function from record to bytes."""

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.cli.times import moment_text


class ShownRecord(Protocol):
    """What a format can show of a record."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


#: topic, partition, record -> what to print.
Printer = Callable[[str, int, ShownRecord], bytes]
Encoding = Callable[[bytes], bytes]

HELP = r"""format strings:
  %v %s  value            %k  key                %t  topic
  %V %S  value's length   %K  key's length       %p  partition
  %o     offset           %h  headers (a=1,b=2)  %T  timestamp in milliseconds
  %d     timestamp as 2026-01-31T12:00:00.000Z   %%  a percent sign
  \n \r \t \\ \0 \xHH     characters
  A null key or value prints as nothing, its length as -1."""


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _base64(data: bytes) -> bytes:
    from base64 import b64encode

    return b64encode(data)


#: Name -> how bytes become printable bytes.
ENCODINGS: dict[str, Encoding] = {"raw": lambda data: data, "hex": _hex, "base64": _base64}

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\", "0": b"\0", '"': b'"', "'": b"'"}
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|([%\\])", re.DOTALL)


def compile_format(text: str, *, key_format: str = "raw", value_format: str = "raw", null: bytes = b"") -> Printer:
    """A printer for a format string; ValueError names a ``%`` letter that means nothing."""
    fields = _fields(ENCODINGS[key_format], ENCODINGS[value_format], null)
    parts: list[bytes | Printer] = []
    for letter, byte, escape, plain, stray in _TOKEN.findall(text):
        if letter == "%":
            parts.append(b"%")
        elif letter:
            if letter not in fields:
                raise ValueError(
                    f"%{letter} means nothing in a format string; there are {' '.join(f'%{f}' for f in fields)}"
                )
            parts.append(fields[letter])
        elif byte:
            parts.append(bytes([int(byte, 16)]))
        elif escape:
            parts.append(_ESCAPES.get(escape, f"\\{escape}".encode()))
        else:
            parts.append((plain or stray).encode())

    def printed(topic: str, partition: int, record: ShownRecord) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(topic, partition, record) for part in parts)

    return printed


def unescape(text: str) -> bytes:
    r"""Plain text with ``\n``, ``\t``, ``\xHH`` and the like, as bytes: delimiters are given so."""
    out = []
    for letter, byte, escape, plain, stray in _TOKEN.findall(text):
        if byte:
            out.append(bytes([int(byte, 16)]))
        elif escape:
            out.append(_ESCAPES.get(escape, f"\\{escape}".encode()))
        else:
            out.append((f"%{letter}" if letter else plain or stray).encode())
    return b"".join(out)


def json_printer(topic: str, partition: int, record: ShownRecord) -> bytes:
    """One record as one line of JSON; bytes that are not text are given in base64 and marked so."""
    import json

    row: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "time": moment_text(record.timestamp),
    }
    for name, data in (("key", record.key), ("value", record.value)):
        text, is_base64 = _json_text(data)
        row[name] = text
        if is_base64:
            row[f"{name}_encoding"] = "base64"
    row["headers"] = [{"key": name, "value": _json_text(data)[0]} for name, data in record.headers]
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _json_text(data: bytes | None) -> tuple[str | None, bool]:
    if data is None:
        return None, False
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return _base64(data).decode(), True


def _fields(key: Encoding, value: Encoding, null: bytes) -> dict[str, Printer]:
    """What each letter prints."""

    def value_of(topic: str, partition: int, record: ShownRecord) -> bytes:
        return null if record.value is None else value(record.value)

    def value_length(topic: str, partition: int, record: ShownRecord) -> bytes:
        return b"-1" if record.value is None else b"%d" % len(record.value)

    def headers_of(topic: str, partition: int, record: ShownRecord) -> bytes:
        return b",".join(name.encode() + b"=" + (null if data is None else data) for name, data in record.headers)

    return {
        "v": value_of,
        "s": value_of,
        "V": value_length,
        "S": value_length,
        "k": lambda topic, partition, record: null if record.key is None else key(record.key),
        "K": lambda topic, partition, record: b"-1" if record.key is None else b"%d" % len(record.key),
        "t": lambda topic, partition, record: topic.encode(),
        "p": lambda topic, partition, record: b"%d" % partition,
        "o": lambda topic, partition, record: b"%d" % record.offset,
        "T": lambda topic, partition, record: b"%d" % record.timestamp,
        "d": lambda topic, partition, record: moment_text(record.timestamp).encode(),
        "h": headers_of,
    }
