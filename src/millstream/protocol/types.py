"""The types a field of a message may have on the wire.

A declaration names the type once; whether a length is written as a fixed integer or as a compact varint is the
compiler's business, for it depends on the version alone.
"""

from typing import Any, NamedTuple


class FixedType(NamedTuple):
    """A value of constant size, read by one code of the ``struct`` module."""

    name: str
    code: str
    size: int
    zero: int | float | bytes


class SizedType(NamedTuple):
    """Bytes behind a length: text, bytes, or records that are neither copied nor looked into."""

    name: str
    length_code: str
    length_size: int


class VarintType(NamedTuple):
    """An integer of as many bytes as it needs; signed ones are zigzag-encoded."""

    name: str
    bits: int
    signed: bool


class Array(NamedTuple):
    """A count, then that many of ``of``: a type of this module or a declared struct."""

    of: "FixedType | SizedType | VarintType | type"


#: What ``field()`` takes: one of these, or a class declared with ``@struct``.
FieldType = FixedType | SizedType | VarintType | Array | type

Bool = FixedType("Bool", "?", 1, False)
Int8 = FixedType("Int8", "b", 1, 0)
Int16 = FixedType("Int16", "h", 2, 0)
Int32 = FixedType("Int32", "i", 4, 0)
Int64 = FixedType("Int64", "q", 8, 0)
UInt16 = FixedType("UInt16", "H", 2, 0)
UInt32 = FixedType("UInt32", "I", 4, 0)
Float64 = FixedType("Float64", "d", 8, 0.0)
Uuid = FixedType("Uuid", "16s", 16, bytes(16))

VarInt = VarintType("VarInt", 32, signed=True)
VarLong = VarintType("VarLong", 64, signed=True)
UVarInt = VarintType("UVarInt", 32, signed=False)

String = SizedType("String", "h", 2)
Bytes = SizedType("Bytes", "i", 4)
Records = SizedType("Records", "i", 4)

#: What a Records field holds: a view when decoded; when encoded also bytes, or anything sized such as a file's slice.
Payload = Any

INT32_MAX = 0x7FFF_FFFF
INT32_MAX = 0x7FFF_FFFF
INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
#: The authorized operations when the request did not ask for them.
NOT_ASKED = -(2**31)
