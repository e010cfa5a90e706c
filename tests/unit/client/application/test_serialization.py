"""Keys and values as bytes and back."""

from typing import Any

import pytest

from millstream.client.application.errors import BadSetting, SerializationFailed
from millstream.client.application.serialization import deserializer, serialized, serializer


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"\x00\xff", b"\x00\xff"),
        ("bytes", memoryview(b"abc"), b"abc"),
        ("bytes", "grün", "grün".encode()),
        ("str", "grün", "grün".encode()),
        ("json", {"a": [1, "ü", None]}, '{"a":[1,"ü",null]}'.encode()),
    ],
)
def test_each_named_serializer_makes_these_bytes(name: str, value: Any, data: bytes) -> None:
    assert serialized("value", value, serializer(name), "t") == data


@pytest.mark.parametrize(
    ("name", "data", "value"), [("str", "grün".encode(), "grün"), ("json", b'{"a": [1, null]}', {"a": [1, None]})]
)
def test_each_named_deserializer_gives_back_what_was_meant(name: str, data: bytes, value: Any) -> None:
    decode = deserializer(name)
    assert decode is not None
    assert decode(data) == value


@pytest.mark.parametrize(("name", "value"), [("bytes", {"a": 1}), ("str", b"raw"), ("json", b"raw"), ("json", 1e999)])
def test_what_a_serializer_does_not_take_is_refused_and_named(name: str, value: Any) -> None:
    with pytest.raises(SerializationFailed, match="the key of a record for 'orders' cannot be serialized"):
        serialized("key", value, serializer(name), "orders")


def test_nothing_stays_nothing() -> None:
    assert serialized("value", None, serializer("json"), "t") is None


def test_any_callable_is_a_serializer_if_it_gives_bytes() -> None:
    assert serialized("value", 7, serializer(lambda number: number.to_bytes(2, "big")), "t") == b"\x00\x07"
    with pytest.raises(SerializationFailed, match="gave int where bytes are due"):
        serialized("value", 7, serializer(lambda number: number), "t")


def test_a_name_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadSetting, match="'avro' is no serializer: give one of 'bytes', 'str', 'json', or a callable"):
        serializer("avro")
