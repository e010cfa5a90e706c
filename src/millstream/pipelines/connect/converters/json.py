"""JSON, with its schema in an envelope beside it or without, as Kafka Connect writes it.

A payload that does not fit its schema is refused, where Kafka's converter reads a zero or half of it.
"""

import json
from dataclasses import dataclass
from typing import Any

from millstream.config.setting import BOOLEAN, INT, STRING, Check, at_least
from millstream.pipelines.connect.converters.base import NOTHING, Converter, Data
from millstream.pipelines.connect.converters.json_reading import Decoder, decoder, needs_digits, read
from millstream.pipelines.connect.converters.json_schemas import schema_of, text_of_schema
from millstream.pipelines.connect.converters.json_writing import Encoder, Rules, encoder, plain
from millstream.pipelines.connect.errors import DataError, Misconfigured
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.schema import Schema

SCHEMAS_ENABLE = Option[bool](
    "schemas.enable",
    BOOLEAN,
    default=True,
    doc="Whether each value comes with its schema.",
    importance="HIGH",
    group="Schemas",
    display="Enable Schemas",
)
SCHEMAS_CACHE_SIZE = Option[int](
    "schemas.cache.size",
    INT,
    default=1000,
    check=at_least(0),
    doc="How many schemas are remembered at most.",
    importance="HIGH",
    group="Schemas",
    display="Schema Cache Size",
)
SCHEMA_CONTENT = Option[str | None](
    "schema.content",
    STRING,
    default=None,
    doc="The schema of every value that is read, which then comes without an envelope.",
    importance="HIGH",
    group="Schemas",
    display="Schema Content",
)
DECIMAL_FORMAT = Option[str](
    "decimal.format",
    STRING,
    default="BASE64",
    check=Check("one of BASE64, NUMERIC", lambda text: text.upper() in ("BASE64", "NUMERIC")),
    doc="How decimals are written: BASE64 of their digits, or as a number. Both are read.",
    importance="LOW",
    group="Serialization",
    display="Decimal Format",
)
REPLACE_NULL_WITH_DEFAULT = Option[bool](
    "replace.null.with.default",
    BOOLEAN,
    default=True,
    doc="Whether a value that is missing is the default of its schema.",
    importance="LOW",
    group="Serialization",
    display="Replace null with default",
)

_BEGIN = '{"schema":'
_MIDDLE = ',"payload":'
_ENVELOPE = {"schema", "payload"}


#: More schemas than these are not looked through for each record.
_CACHED_MAX = 100


@dataclass(frozen=True, slots=True)
class Reader:
    """What reads the payloads of a schema."""

    schema: Schema | None
    decode: Decoder
    #: Whether numbers keep all their digits.
    exact: bool

    def read(self, text: str) -> Data:
        return Data(self.schema, self.decode(read(text, self.exact)))


class JsonConverter(Converter):
    """JSON texts."""

    options = (SCHEMAS_ENABLE, SCHEMAS_CACHE_SIZE, SCHEMA_CONTENT, DECIMAL_FORMAT, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._rules = Rules(config[DECIMAL_FORMAT].upper() == "NUMERIC", config[REPLACE_NULL_WITH_DEFAULT])
        self._enveloped = config[SCHEMAS_ENABLE]
        self._cached_max = min(max(config[SCHEMAS_CACHE_SIZE], 1), _CACHED_MAX)
        self._writer = PerSchema(self._make_writer, self._cached_max)
        #: By the text that stands in the envelope.
        self._readers: dict[str, Reader] = {}
        self._only = self._told(config[SCHEMA_CONTENT])

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        try:
            if schema is None:
                if value is None:
                    return None
                text, schema_text = plain(value), "null"
            else:
                write, schema_text = self._writer(schema)
                text = write(value)
            return (f"{_BEGIN}{schema_text}{_MIDDLE}{text}}}" if self._enveloped else text).encode()
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"Converting Kafka Connect data to byte[] failed due to serialization error: {error}"
            ) from error

    def decode(self, topic: str, data: bytes | None) -> Data:
        if data is None:
            return NOTHING
        try:
            text = data.decode()
            if not self._enveloped:
                return Data(None, read(text)) if text else NOTHING
            if self._only is not None:
                return self._only.read(text)
            return self._known(text) or self._opened(text)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}"
            ) from error

    def _told(self, content: str | None) -> Reader | None:
        """What reads values whose only schema the config tells."""
        if not content:
            return None
        try:
            return self._reader(content)
        except (ValueError, DataError) as error:
            raise Misconfigured(f"schema.content is no schema: {error}") from error

    def _known(self, text: str) -> Data | None:
        """What an envelope holds whose schema was seen before: that is not parsed again."""
        if not text.startswith(_BEGIN) or not text.endswith("}"):
            return None
        for schema_text, reader in self._readers.items():
            end = len(_BEGIN) + len(schema_text)
            if text.startswith(schema_text, len(_BEGIN)) and text.startswith(_MIDDLE, end):
                try:
                    return reader.read(text[end + len(_MIDDLE) : -1])
                except ValueError:
                    return None
        return None

    def _opened(self, text: str) -> Data:
        envelope = read(text)
        if not isinstance(envelope, dict) or envelope.keys() != _ENVELOPE:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your "
                "converter configuration."
            )
        reader = self._reader(_schema_text(text, envelope["schema"]))
        payload = read(text, exact=True)["payload"] if reader.exact else envelope["payload"]
        return Data(reader.schema, reader.decode(payload))

    def _make_writer(self, schema: Schema) -> tuple[Encoder, str]:
        return encoder(schema, self._rules), text_of_schema(schema, self._rules)

    def _reader(self, text: str) -> Reader:
        found = self._readers.get(text)
        if found is None:
            schema = schema_of(read(text, exact=True), self._rules)
            if len(self._readers) >= self._cached_max:
                self._readers.clear()
            found = self._readers[text] = Reader(schema, decoder(schema, self._rules), needs_digits(schema))
        return found


def _schema_text(text: str, schema: Any) -> str:
    """The schema as it stands in the envelope, so that the next of its kind is known by it."""
    if text.startswith(_BEGIN) and text[len(_BEGIN)] in "{n":
        _, end = json.JSONDecoder().raw_decode(text, len(_BEGIN))
        return text[len(_BEGIN) : end]
    return json.dumps(schema)
