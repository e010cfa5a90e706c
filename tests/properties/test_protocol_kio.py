"""kio, which is generated from Kafka's own schemas, agrees with us on every byte of every message it knows."""

import dataclasses
import datetime
import io
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from millstream.model.ids import ZERO_UUID
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_request_header, encode_request_header
from millstream.protocol.schema import OWN_TAGS, Field, Message, Request, Struct
from millstream.protocol.types import INT32_MAX, Array
from tests.properties.strategies import VERSIONED, valid

#: Broker-to-broker requests that left Kafka with 4.0, and kio with it.
_UNKNOWN_TO_KIO = {4, 5, 6, 7}
_KNOWN = [(cls, version) for cls, version in VERSIONED if cls.API_KEY not in _UNKNOWN_TO_KIO]

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)

#: kio gives these fields types of its own, which hold less than the wire does.
_NARROWED: dict[str, st.SearchStrategy[Any]] = {
    "error_code": st.sampled_from([int(code) for code in KioErrorCode]),
    "partition_error_code": st.sampled_from([int(code) for code in KioErrorCode]),
    "log_append_time_ms": st.integers(-1, 1 << 41),
    "retention_time_ms": st.integers(-1, 1 << 41),
    "transaction_start_time_ms": st.integers(-1, 1 << 41),
    "min_in_sync": st.just(INT32_MAX),  # Our own, and left out so.
    "chosen_id": st.just(ZERO_UUID),  # Likewise.
    "eligible_replicas": st.just([]),
}
_NAMES = {"enable_2pc": "enable2_pc"}


def _kio_class(cls: type[Message], version: int) -> Any:
    if issubclass(cls, Request):
        return getattr(load_payload_module(cls.API_KEY, version, EntityType.request), cls.__name__)
    return getattr(load_payload_module(cls.API_KEY, version, EntityType.response), cls.__name__)


def _pairs(cls: type[Struct], kio_class: Any) -> list[tuple[Field, Any]]:
    """Kafka's fields among ours beside kio's, which are declared in the same order and named alike."""
    present = [each for each in cls.FIELDS if each.is_present(kio_class.__version__)]
    ours = [each for each in present if each.tag is None or each.tag < OWN_TAGS]
    theirs = dataclasses.fields(kio_class)
    names = [_NAMES.get(each.name, each.name) for each in ours]
    assert [name.removesuffix("_ms") for name in names] == [each.name.removesuffix("_ms") for each in theirs]
    return list(zip(ours, theirs, strict=True))


def _element_class(kio_field: Any) -> Any:
    """The kio class a field holds: itself, one or none of it, or a tuple of it."""
    found = kio_field.type
    while not dataclasses.is_dataclass(found):
        found = next(arg for arg in found.__args__ if arg is not type(None))
    return found


def _to_kio(message: Struct, kio_class: Any) -> Any:
    values = {}
    for ours, theirs in _pairs(type(message), kio_class):
        value = getattr(message, ours.name)
        if value is None and ours.tag is not None and isinstance(ours.type, type):
            continue  # Ours is None while not sent; theirs has its default.
        values[theirs.name] = _value_to_kio(value, ours.type, theirs)
    return kio_class(**values)


def _value_to_kio(value: Any, of: Any, theirs: Any) -> Any:
    if value is None:
        return None
    if isinstance(of, Array):
        return tuple(_value_to_kio(each, of.of, theirs) for each in value)
    if isinstance(of, type):
        return _to_kio(value, _element_class(theirs))
    match theirs.metadata["kafka_type"]:
        case "uuid":
            return None if value == ZERO_UUID else uuid.UUID(bytes=value)
        case "error_code":
            return KioErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return value * _MS
        case "datetime_i64":
            return None if value == -1 else _EPOCH + value * _MS
    return value


def _from_kio(entity: Any, cls: type[Struct]) -> Any:
    values = {}
    for ours, theirs in _pairs(cls, type(entity)):
        value = getattr(entity, theirs.name)
        if ours.tag is not None and isinstance(ours.type, type) and value == theirs.default:
            continue
        values[ours.name] = _value_from_kio(value, ours.type, theirs)
    return cls(**values)


def _value_from_kio(value: Any, of: Any, theirs: Any) -> Any:
    kafka_type = theirs.metadata.get("kafka_type")
    if kafka_type == "uuid" and not isinstance(of, Array):
        return ZERO_UUID if value is None else value.bytes
    if kafka_type == "datetime_i64":
        return -1 if value is None else (value - _EPOCH) // _MS
    if value is None:
        return None
    if isinstance(of, Array):
        return [_value_from_kio(each, of.of, theirs) for each in value]
    if isinstance(of, type):
        return _from_kio(value, of)
    return value // _MS if kafka_type in ("timedelta_i32", "timedelta_i64") else value


def _without_default_structs(message: Any, cls: type[Struct], kio_class: Any) -> Any:
    """The message with tagged structs left out that hold their defaults: kio never sends those."""
    for ours, theirs in _pairs(cls, kio_class):
        value = getattr(message, ours.name)
        if value is None:
            continue
        if isinstance(ours.type, type):
            if ours.tag is not None and _to_kio(value, _element_class(theirs)) == theirs.default:
                setattr(message, ours.name, None)
            else:
                _without_default_structs(value, ours.type, _element_class(theirs))
        elif isinstance(ours.type, Array) and isinstance(ours.type.of, type):
            for each in value:
                _without_default_structs(each, ours.type.of, _element_class(theirs))
    return message


@pytest.mark.parametrize(("cls", "version"), _KNOWN)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_kio_writes_and_reads_the_same_bytes(cls: type[Message], version: int, data: st.DataObject) -> None:
    """Both ways, for one drawn message: our bytes are theirs, theirs decode to it, and they read ours."""
    kio_class = _kio_class(cls, version)
    message = _without_default_structs(data.draw(valid(cls, version, _NARROWED)), cls, kio_class)
    written = io.BytesIO()
    entity_writer(kio_class)(written, _to_kio(message, kio_class))
    encoded = encode(message, version)
    assert encoded == written.getvalue()
    assert decode(cls, written.getvalue(), version) == message
    entity, size = entity_reader(kio_class)(encoded, 0)
    assert size == len(encoded)
    assert _from_kio(entity, cls) == message


@pytest.mark.parametrize(("cls", "version"), _KNOWN)
def test_kio_and_we_agree_on_what_may_be_null_and_on_defaults(cls: type[Message], version: int) -> None:
    kio_class = _kio_class(cls, version)
    assert kio_class.__flexible__ == (version >= cls.FLEXIBLE_FROM)
    _check_nulls_and_defaults(cls, kio_class)


def _check_nulls_and_defaults(cls: type[Struct], kio_class: Any) -> None:
    for ours, theirs in _pairs(cls, kio_class):
        stands_for_a_value = theirs.metadata.get("kafka_type") in ("uuid", "datetime_i64")
        if not stands_for_a_value:
            is_optional = type(None) in getattr(theirs.type, "__args__", ())
            assert is_optional == ours.is_nullable(kio_class.__version__), theirs.name
        of = ours.type.of if isinstance(ours.type, Array) else ours.type
        if isinstance(of, type):
            _check_nulls_and_defaults(of, _element_class(theirs))
        elif theirs.default is not dataclasses.MISSING and of is ours.type:
            assert _value_from_kio(theirs.default, ours.type, theirs) == ours.make_default(), theirs.name


@pytest.mark.parametrize(("cls", "version"), [(cls, version) for cls, version in _KNOWN if issubclass(cls, Request)])
@given(correlation_id=st.integers(-(2**31), 2**31 - 1), client_id=st.none() | st.text(st.characters(codec="utf-8")))
@settings(max_examples=3, deadline=None)
def test_request_headers_are_those_of_kio(
    cls: type[Message], version: int, correlation_id: int, client_id: str | None
) -> None:
    kio_header = _kio_class(cls, version).__header_schema__
    assert kio_header in (KioHeaderV1, KioHeaderV2)
    written = io.BytesIO()
    values = (cls.API_KEY, version, correlation_id, client_id)
    names = (each.name for each in dataclasses.fields(kio_header))
    entity_writer(kio_header)(written, kio_header(**dict(zip(names, values, strict=True))))
    encoded = encode_request_header(*values)
    assert encoded == written.getvalue()
    assert decode_request_header(encoded + b"body") == (*values, len(encoded))
