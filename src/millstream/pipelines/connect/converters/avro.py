"""Avro without a schema registry: the schema is told by the config, or made of the records' own."""

import io
import json
from collections.abc import Mapping
from typing import Any

from millstream.config.setting import STRING, one_of
from millstream.pipelines.connect.converters.avro_schemas import avro_of, connect_of
from millstream.pipelines.connect.converters.base import NOTHING, Converter, Data
from millstream.pipelines.connect.errors import DataError, Misconfigured
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.schema import Schema

SCHEMA = Option[str | None](
    "schema",
    STRING,
    default=None,
    doc="The Avro schema as JSON. To read, it must be given; to write, the records' own schema stands in for it.",
    importance="HIGH",
    group="Schemas",
    width="LONG",
)
FRAMING = Option[str](
    "framing",
    STRING,
    default="none",
    check=one_of("none", "single-object", "registry"),
    doc="What stands before a datum: nothing, Avro's mark and the fingerprint of its schema, or the five bytes of "
    "schema registries, which are only read.",
    group="Schemas",
    recommended=("none", "single-object", "registry"),
)
_UNREADABLE = "Avro cannot be read without its schema: give the converter one: schema"
_UNWRITABLE = "framing=registry is only read: the id of a schema is the registry's to give"
_SINGLE_OBJECT = b"\xc3\x01"
_FINGERPRINT_BYTES = 8
_REGISTRY_BYTES = 5
#: What fastavro raises for data that does not fit; it has no error of its own for most of it.
_MISFITS = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OverflowError, RecursionError)


class AvroSchema:
    """A schema in both languages, and what stands before its data."""

    def __init__(self, avro: Any, framing: str, connect: Schema | None = None) -> None:
        import fastavro
        from fastavro.schema import SchemaParseException, fingerprint, to_parsing_canonical_form

        try:
            self.parsed: Any = fastavro.parse_schema(avro)
            self.connect = connect_of(avro) if connect is None else connect
            # The fingerprint comes as the text of its bytes, in the order in which they are written.
            mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(avro), "CRC-64-AVRO"))
        except (SchemaParseException, *_MISFITS) as error:
            raise DataError(f"no Avro schema: {type(error).__name__}: {error}") from error
        self.prefix = _SINGLE_OBJECT + mark if framing == "single-object" else b""


class AvroConverter(Converter):
    """One datum of Avro."""

    options = (SCHEMA, FRAMING)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        try:
            import fastavro
        except ImportError:
            raise Misconfigured("AvroConverter needs fastavro: pip install 'millstream[spark]'") from None
        self._fastavro: Any = fastavro
        self._framing = config[FRAMING]
        self._given = self._parsed(config[SCHEMA]) if config[SCHEMA] else None
        self._derived = PerSchema(lambda schema: AvroSchema(avro_of(schema), self._framing, schema))

    @classmethod
    def check(cls, config: Config, *, reads: bool) -> Mapping[str, str]:
        if reads and not config[SCHEMA]:
            return {SCHEMA.name: _UNREADABLE}
        if not reads and config[FRAMING] == "registry":
            return {FRAMING.name: _UNWRITABLE}
        return {}

    def _parsed(self, text: str | None) -> AvroSchema:
        try:
            return AvroSchema(json.loads(text or ""), self._framing)
        except (ValueError, DataError) as error:
            raise Misconfigured(f"schema: {error}") from error

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if self._framing == "registry":
            raise Misconfigured(_UNWRITABLE)
        avro = self._given or self._of(schema)
        stream = io.BytesIO()
        stream.write(avro.prefix)
        try:
            self._fastavro.schemaless_writer(stream, avro.parsed, value)
        except _MISFITS as error:
            raise DataError(f"a value does not fit its Avro schema: {type(error).__name__}: {error}") from error
        return stream.getvalue()

    def _of(self, schema: Schema | None) -> AvroSchema:
        if schema is None:
            raise DataError("a record without a schema has no Avro schema either; give the converter one: schema")
        return self._derived(schema)

    def decode(self, topic: str, data: bytes | None) -> Data:
        if data is None:
            return NOTHING
        if self._given is None:
            raise Misconfigured(_UNREADABLE)
        stream = io.BytesIO(data)
        stream.seek(self._begin(data, self._given.prefix))
        try:
            value = self._fastavro.schemaless_reader(stream, self._given.parsed, None)
        except _MISFITS as error:
            raise DataError(f"no datum of its Avro schema: {type(error).__name__}: {error}") from error
        if stream.tell() != len(data):
            raise DataError(f"no datum of its Avro schema: {len(data) - stream.tell()} bytes are left over")
        return Data(self._given.connect, value)

    def _begin(self, data: bytes, prefix: bytes) -> int:
        """Where the datum begins."""
        if self._framing == "registry":
            if len(data) < _REGISTRY_BYTES or data[0] != 0:
                raise DataError("no schema registry's frame before the datum")
            return _REGISTRY_BYTES
        if not data.startswith(prefix):
            found = data[len(_SINGLE_OBJECT) : len(_SINGLE_OBJECT) + _FINGERPRINT_BYTES]
            if data.startswith(_SINGLE_OBJECT):
                raise DataError(f"a datum of another schema, whose fingerprint is {found[::-1].hex()}")
            raise DataError("no mark of a single object before the datum")
        return len(prefix)
