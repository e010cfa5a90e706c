"""Records to an HTTP server: each at least once, under a key by which the server may know it again.

Options are called as those of Confluent's HTTP sink.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from millstream.config.setting import BOOLEAN, INT, NOT_EMPTY, PASSWORD, STRING, Check, at_least, one_of
from millstream.pipelines.connect.base import Batch, Sink
from millstream.pipelines.connect.converters.json import JsonConverter
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import REQUIRED, Config, Option, parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sinks.http_sending import Patience, Sender

_HTTP, _BATCHES, _RETRIES = "HTTP", "Batches", "Retries"
_METHODS = ("POST", "PUT", "PATCH")


def _is_url(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "$" not in parts.netloc


URL = Option[str](
    "http.api.url",
    STRING,
    default=REQUIRED,
    check=Check("http://host/path or https://host/path", _is_url),
    doc="Where records go. In the path, ${topic} and ${key} stand for the record's.",
    importance="HIGH",
    group=_HTTP,
    width="LONG",
    display="HTTP API URL",
)
METHOD = Option[str](
    "request.method",
    STRING,
    default="POST",
    check=Check(f"one of {', '.join(_METHODS)}", lambda name: name.upper() in _METHODS),
    doc="The method of requests.",
    importance="HIGH",
    group=_HTTP,
    display="Request Method",
    recommended=_METHODS,
)
HEADERS = Option[str](
    "headers",
    STRING,
    default="",
    doc="Headers of every request, as Name:value|Other:value.",
    group=_HTTP,
    width="LONG",
    display="Headers",
)
HEADER_SEPARATOR = Option[str](
    "header.separator",
    STRING,
    default="|",
    check=NOT_EMPTY,
    doc="What stands between two headers.",
    importance="LOW",
    group=_HTTP,
    display="Header Separator",
)
KEY_HEADER = Option[str](
    "idempotency.header",
    STRING,
    default="Idempotency-Key",
    doc="The header that says which records a request carries, the same whenever it is repeated; none when empty.",
    group=_HTTP,
    display="Idempotency Header",
)
BODY_FORMAT = Option[str](
    "request.body.format",
    STRING,
    default="json",
    check=one_of("json", "string"),
    doc="What is sent: values as JSON, or texts as they are.",
    group=_HTTP,
    display="Request Body Format",
    recommended=("json", "string"),
)
NULL_VALUES = Option[str](
    "behavior.on.null.values",
    STRING,
    default="ignore",
    check=one_of("ignore", "delete", "fail"),
    doc="What becomes of a record without a value: nothing, a DELETE without a body, or an error of that record.",
    importance="LOW",
    group=_HTTP,
    display="Behavior for null valued records",
    recommended=("ignore", "delete", "fail"),
)
AUTH = Option[str](
    "auth.type",
    STRING,
    default="NONE",
    check=Check("one of NONE, BASIC, BEARER", lambda name: name.upper() in ("NONE", "BASIC", "BEARER")),
    doc="How the sink says who it is.",
    group=_HTTP,
    display="Endpoint Authentication type",
    recommended=("NONE", "BASIC", "BEARER"),
)
USER = Option[str]("connection.user", STRING, default="", doc="The name for BASIC.", group=_HTTP)
SECRET = Option[str]("connection.password", PASSWORD, default="", doc="The password for BASIC.", group=_HTTP)
TOKEN = Option[str]("bearer.token", PASSWORD, default="", doc="The token for BEARER.", group=_HTTP)
TIMEOUT_MS = Option[int](
    "http.request.timeout.ms",
    INT,
    default=30_000,
    check=at_least(1),
    doc="How long a server may be silent before the request is given up and tried again.",
    group=_HTTP,
)
BATCH_SIZE = Option[int](
    "batch.max.size",
    INT,
    default=1,
    check=at_least(1),
    doc="How many records a request carries at most: above 1, JSON is sent as an array.",
    importance="HIGH",
    group=_BATCHES,
    display="Maximum batch size",
)
AS_ARRAY = Option[bool](
    "batch.json.as.array",
    BOOLEAN,
    default=False,
    doc="Whether JSON is an array even where a request carries one record at most.",
    group=_BATCHES,
)
PREFIX = Option[str]("batch.prefix", STRING, default="", doc="Before the texts of a batch.", group=_BATCHES)
SUFFIX = Option[str]("batch.suffix", STRING, default="", doc="Behind the texts of a batch.", group=_BATCHES)
SEPARATOR = Option[str](
    "batch.separator", STRING, default=",", doc="Between the texts of a batch; \\n for a new line.", group=_BATCHES
)
RETRIES_MAX = Option[int](
    "max.retries",
    INT,
    default=10,
    check=at_least(0),
    doc="How often a request is repeated before the connector itself begins the batch anew.",
    group=_RETRIES,
    display="Maximum Retries",
)
BACKOFF_MS = Option[int](
    "retry.backoff.ms",
    INT,
    default=1_000,
    check=at_least(0),
    doc="The wait before the first repetition; it doubles from then on.",
    group=_RETRIES,
    display="Retry Backoff (millis)",
)


class HttpSink(Sink):
    """Sends the records of a partition in order, each once it is known that those before it were taken."""

    options = (
        *(URL, METHOD, HEADERS, HEADER_SEPARATOR, KEY_HEADER, BODY_FORMAT, NULL_VALUES, AUTH, USER, SECRET, TOKEN),
        *(TIMEOUT_MS, BATCH_SIZE, AS_ARRAY, PREFIX, SUFFIX, SEPARATOR, RETRIES_MAX, BACKOFF_MS),
    )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._json = JsonConverter(parse(JsonConverter.options, {"schemas.enable": "false"})[0])
        self._has_arrays = config[BATCH_SIZE] > 1 or config[AS_ARRAY]
        self._is_json = config[BODY_FORMAT] == "json"
        self._headers = _headers(config)
        parts = urlsplit(config[URL])
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._sender: Sender | None = None

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        found = {}
        if config[AUTH].upper() == "BASIC" and not config[USER]:
            found[USER.name] = "BASIC needs a name."
        if config[AUTH].upper() == "BEARER" and not config[TOKEN]:
            found[TOKEN.name] = "BEARER needs a token."
        if any(":" not in header for header in _split(config)):
            found[HEADERS.name] = "Headers are written as Name:value, with header.separator between them."
        return found

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def write(self, records: Iterator[Record], batch: Batch) -> None:
        for path, group in self._grouped(records):
            if group[0].value is None:
                self._send("DELETE", path, group)
            else:
                self._send(self.config[METHOD].upper(), path, group)

    def _grouped(self, records: Iterator[Record]) -> Iterator[tuple[str, list[Record]]]:
        """Records that go into one request, and where that goes: the same whenever the same records come."""
        path, group = "", list[Record]()
        for record in records:
            try:
                if record.value is None and self.config[NULL_VALUES] == "fail":
                    raise DataError("the record has no value")
                if record.value is not None:
                    self._text(record)
                goes_to = self._path_of(record)
            except DataError as error:
                self.refuse(record, error)
                continue
            is_deletion = record.value is None
            if is_deletion and self.config[NULL_VALUES] == "ignore":
                continue
            if group and (is_deletion or path != goes_to or len(group) >= self.config[BATCH_SIZE]):
                yield path, group
                group = []
            path = goes_to
            group.append(record)
            if is_deletion:
                yield path, group
                group = []
        if group:
            yield path, group

    def _send(self, method: str, path: str, group: list[Record]) -> None:
        try:
            self._connected.send(method, path, self._headers_of(group), self._body(group))
        except DataError as error:
            if len(group) == 1:
                self.refuse(group[0], error)
                return
            # Somebody in it is to blame; each alone, the others are taken.
            for record in group:
                self._send(method, path, [record])

    @property
    def _connected(self) -> Sender:
        if self._sender is None:
            patience = Patience(self.config[RETRIES_MAX], self.config[BACKOFF_MS], self.config[TIMEOUT_MS])
            self._sender = Sender(self.config[URL], patience)
        return self._sender

    def _path_of(self, record: Record) -> str:
        path = self._path.replace("${topic}", quote(record.topic, safe=""))
        if "${key}" in path:
            if record.key is None:
                raise DataError("the record has no key, and http.api.url names it")
            path = path.replace("${key}", quote(_plain(record.key), safe=""))
        return path

    def _headers_of(self, group: list[Record]) -> dict[str, str]:
        if not self.config[KEY_HEADER]:
            return self._headers
        first, last = group[0], group[-1]
        offsets = f"{first.offset}" if first is last else f"{first.offset}-{last.offset}"
        names = [quote(name, safe="") for name in (self.config.name, first.origin or first.topic)]
        return {**self._headers, self.config[KEY_HEADER]: "/".join([*names, str(first.partition), offsets])}

    def _body(self, group: list[Record]) -> bytes | None:
        if group[0].value is None:
            return None
        texts = [self._text(record) for record in group]
        if not self._has_arrays:
            return texts[0]
        if self._is_json:
            return b"[" + b",".join(texts) + b"]"
        before, between, behind = (
            self.config[option].replace("\\n", "\n").encode() for option in (PREFIX, SEPARATOR, SUFFIX)
        )
        return before + between.join(texts) + behind

    def _text(self, record: Record) -> bytes:
        if self._is_json:
            return self._json.encode(record.topic, record.value_schema, record.value) or b"null"
        return record.value if isinstance(record.value, bytes) else _plain(record.value).encode()


def _plain(value: Any) -> str:
    """A key or a value as text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise DataError("the bytes are no text of UTF-8") from None
    if isinstance(value, dict | list):
        raise DataError(f"{type(value).__name__} is no text; request.body.format=json sends it")
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _split(config: Config) -> list[str]:
    return [header for header in config[HEADERS].split(config[HEADER_SEPARATOR]) if header.strip()]


def _headers(config: Config) -> dict[str, str]:
    kind = "application/json" if config[BODY_FORMAT] == "json" else "text/plain; charset=utf-8"
    headers = {"Content-Type": kind, "User-Agent": "millstream"}
    for header in _split(config):
        name, _, value = header.partition(":")
        headers[name.strip()] = value.strip()
    if config[AUTH].upper() == "BASIC":
        pair = f"{config[USER]}:{config[SECRET]}".encode()
        headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
    if config[AUTH].upper() == "BEARER":
        headers["Authorization"] = f"Bearer {config[TOKEN]}"
    return headers
