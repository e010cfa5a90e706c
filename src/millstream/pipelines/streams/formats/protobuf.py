"""Protobuf: messages of one type, by its generated class or a descriptor set (``protoc --descriptor_set_out``)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats.python import PythonFormat, Reader, Writer

#: google.protobuf's cpp_type -> Spark's type. Unsigned numbers take the next larger type; uint64 may be negative.
_TYPES: dict[int, DataType] = {
    1: IntegerType(),
    2: LongType(),
    3: LongType(),
    4: LongType(),
    5: DoubleType(),
    6: FloatType(),
    7: BooleanType(),
    8: StringType(),
    9: StringType(),
}
_MESSAGE, _BYTES, _MAX_SIGNED = 10, 12, 2**63


class Protobuf(PythonFormat):
    """Messages as columns. ``schema`` is ``<descriptor set file>#<full message name>``, or a generated class."""

    def __init__(self, schema: Any, options: Mapping[str, str]) -> None:
        del options
        if isinstance(schema, str):
            file, _, self._message = schema.rpartition("#")
            if not file:
                raise StreamsError(f"schema={schema!r}: protobuf wants <descriptor set file>#<message name>")
            self._files = Path(file).read_bytes()
        else:
            self._message, self._files = schema.DESCRIPTOR.full_name, _descriptor_set(schema.DESCRIPTOR.file)
        self.schema = _struct(self._class().DESCRIPTOR)

    def _class(self) -> Any:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(self._files).file:
            pool.Add(file)
        try:
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(self._message))
        except KeyError:
            raise StreamsError(f"schema: the descriptor set has no message {self._message!r}") from None

    def reader(self) -> Reader:
        message_class = self._class()
        return lambda data: _row(message_class.FromString(data))

    def writer(self) -> Writer:
        message_class = self._class()

        def write(row: dict[str, Any]) -> bytes:
            message = message_class()
            _fill(message, row)
            return bytes(message.SerializeToString(deterministic=True))

        return write


def _descriptor_set(file: Any) -> bytes:
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorSet()

    def add(one: Any) -> None:
        for dependency in one.dependencies:
            add(dependency)
        if all(known.name != one.name for known in found.file):
            one.CopyToProto(found.file.add())

    add(file)
    return bytes(found.SerializeToString())


def _struct(descriptor: Any) -> StructType:
    return StructType([StructField(field.name, _type_of(field)) for field in descriptor.fields])


def _type_of(field: Any) -> DataType:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return MapType(_type_of(parts["key"]), _type_of(parts["value"]))
    if field.cpp_type == _MESSAGE:
        one: DataType = _struct(field.message_type)
    else:
        one = BinaryType() if field.type == _BYTES else _TYPES[field.cpp_type]
    return ArrayType(one) if field.is_repeated else one


def _is_map(field: Any) -> bool:
    return bool(field.cpp_type == _MESSAGE and field.message_type.GetOptions().map_entry)


def _row(message: Any) -> dict[str, Any]:
    """Fields by name; one that tells absence from a default (optional, oneof, a message) is None when absent."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            of_value = field.message_type.fields_by_name["value"]
            row[field.name] = [(key, _one(of_value, value[key])) for key in value]
        elif field.is_repeated:
            row[field.name] = [_one(field, item) for item in value]
        else:
            absent = field.has_presence and not message.HasField(field.name)
            row[field.name] = None if absent else _one(field, value)
    return row


def _one(field: Any, value: Any) -> Any:
    if field.cpp_type == _MESSAGE:
        return _row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if isinstance(value, int) and value >= _MAX_SIGNED:
        return value - 2 * _MAX_SIGNED
    return value


def _fill(message: Any, row: dict[str, Any]) -> None:
    for field in message.DESCRIPTOR.fields:
        value = row.get(field.name)
        if value is None:
            continue
        if _is_map(field):
            _fill_map(field, getattr(message, field.name), dict(value))
        elif field.is_repeated and field.cpp_type == _MESSAGE:
            for item in value:
                _fill(getattr(message, field.name).add(), item)
        elif field.is_repeated:
            getattr(message, field.name).extend(_number(field, item) for item in value)
        elif field.cpp_type == _MESSAGE:
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), value)
        else:
            setattr(message, field.name, _number(field, value))


def _fill_map(field: Any, target: Any, entries: dict[Any, Any]) -> None:
    of_value = field.message_type.fields_by_name["value"]
    for key, value in entries.items():
        if of_value.cpp_type == _MESSAGE:
            _fill(target[key], value)
        else:
            target[key] = _number(of_value, value)


def _number(field: Any, value: Any) -> Any:
    """What a field takes for a column's value: an enum's number for its name, an unsigned number for a negative one."""
    if field.enum_type is not None:
        known = field.enum_type.values_by_name.get(value)
        return known.number if known is not None else int(value)
    return value % (2 * _MAX_SIGNED) if field.cpp_type == 4 else value
