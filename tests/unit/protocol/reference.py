"""A second, naive codec that walks a schema field by field: slow, obvious, and sharing no code with ours.

It serves the broker-to-broker APIs that left Kafka with 4.0 and so are unknown to kio.  Their schemas are those of
Kafka 3.9, one field a line as ``Name type versions [nullable] [tag=N]``, a nested struct's fields indented below it.
"""

import struct
from typing import Any, NamedTuple


class Line(NamedTuple):
    """A field of a schema, with the fields of the struct it holds, if it holds one."""

    name: str
    type: str
    first: int
    last: int
    nullable: bool
    tag: int | None
    fields: list["Line"]


def parse_schema(text: str) -> list[Line]:
    """The fields of a message, nested as the lines are indented."""
    roots: list[Line] = []
    levels: list[tuple[int, list[Line]]] = [(-1, roots)]
    for row in filter(str.strip, text.splitlines()):
        indent = len(row) - len(row.lstrip())
        name, kind, versions, *flags = row.split()
        first, _, last = versions.rstrip("+").partition("-")
        tag = next((int(flag[4:]) for flag in flags if flag.startswith("tag=")), None)
        until = 99 if versions.endswith("+") else int(last or first)
        line = Line(name, kind, int(first), until, "nullable" in flags, tag, [])
        while levels[-1][0] >= indent:
            levels.pop()
        levels[-1][1].append(line)
        levels.append((indent, line.fields))
    return roots


_CODES = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uuid": ">16s"}


def uvarint(value: int) -> bytes:
    """Seven bits at a time."""
    return bytes([value]) if value < 128 else bytes([value % 128 + 128]) + uvarint(value // 128)


def reference_encode(fields: list[Line], message: Any, version: int, flexible: bool) -> bytes:
    """The bytes of ``message``, any object with the schema's fields as snake_case attributes."""
    out, tagged = b"", []
    for line in fields:
        if not line.first <= version <= line.last:
            continue
        value = getattr(message, line.name)
        if line.tag is None:
            out += _encode_value(line, line.type, value, version, flexible)
        elif value not in (0, None, [], bytes(16)):
            body = _encode_value(line, line.type, value, version, flexible)
            tagged.append(uvarint(line.tag) + uvarint(len(body)) + body)
    return out + uvarint(len(tagged)) + b"".join(tagged) if flexible else out


def _encode_value(line: Line, kind: str, value: Any, version: int, flexible: bool) -> bytes:
    if kind in _CODES:
        return struct.pack(_CODES[kind], value)
    if value is None:
        assert line.nullable
        return b"\x00" if flexible else b"\xff\xff"
    if kind == "string":
        raw: bytes = value.encode()
        return (uvarint(len(raw) + 1) if flexible else struct.pack(">h", len(raw))) + raw
    if kind.startswith("[]"):
        count = uvarint(len(value) + 1) if flexible else struct.pack(">i", len(value))
        return count + b"".join(_encode_value(line, kind[2:], each, version, flexible) for each in value)
    return reference_encode(line.fields, value, version, flexible)
