"""Values drawn from the declarations themselves, so that a new message is tested the day it is declared."""

from collections.abc import Mapping
from typing import Any, TypeVar

from hypothesis import strategies as st

from millstream.protocol.messages import REQUESTS
from millstream.protocol.schema import Field, Message, Struct
from millstream.protocol.types import Array, FieldType, FixedType, SizedType, VarintType

_S = TypeVar("_S", bound=Struct)

#: Every request and response.
MESSAGES: list[type[Message]] = [cls for request in REQUESTS.values() for cls in (request, request.RESPONSE)]

#: Every message at every version.
VERSIONED: list[tuple[type[Message], int]] = [
    (cls, version) for cls in MESSAGES for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)
]

_INTEGER_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_TEXTS = st.one_of(st.text(st.characters(codec="utf-8"), max_size=6), st.sampled_from(["x" * 127, "é" * 100]))
_SIZED: dict[str, st.SearchStrategy[Any]] = {
    "String": _TEXTS,
    "Bytes": st.binary(max_size=8),
    "Records": st.one_of(st.binary(max_size=8), st.just(bytes(300))),
}


def valid(
    cls: type[_S], version: int, overrides: Mapping[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[_S]:
    """Any message of a class that its ``version`` can carry; ``overrides`` draws fields of these names differently."""
    values = {each.name: _value(each, version, overrides or {}) for each in cls.FIELDS if each.is_present(version)}
    return st.builds(cls, **values)


def _value(each: Field, version: int, overrides: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    if each.name in overrides:
        return overrides[each.name]
    drawn = _of(each.type, version, overrides)
    is_absent_struct = each.is_tagged(version) and isinstance(each.type, type)
    return st.none() | drawn if each.is_nullable(version) or is_absent_struct else drawn


def _of(of: FieldType, version: int, overrides: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    match of:
        case FixedType(name="Bool"):
            return st.booleans()
        case FixedType(name="Uuid"):
            return st.binary(min_size=16, max_size=16)
        case FixedType(name="Float64"):
            return st.floats(allow_nan=False)
        case FixedType(code=code):
            bits = _INTEGER_BITS[code.lower()]
            low = 0 if code.isupper() else -(1 << bits - 1)
            return st.integers(low, low + (1 << bits) - 1)
        case VarintType(bits=bits, signed=signed):
            return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)
        case SizedType(name=name):
            return _SIZED[name]
        case Array(of=element):
            return st.lists(_of(element, version, overrides), max_size=2)
        case _:
            return valid(of, version, overrides)
