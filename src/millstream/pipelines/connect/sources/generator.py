"""Made-up records, as many and as fast as wanted; the same again for the same seed and place.

Each field says what it is made of: ``{"id": "sequence", "user": "choice anna bob", "at": {"lat": "float -90 90"}}``.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from millstream.config.setting import DOUBLE, INT, LONG, NOT_EMPTY, STRING, at_least
from millstream.model.clock import SystemClock
from millstream.pipelines.connect.base import Offset, Partition, Source
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.places import COUNT as NUMBER
from millstream.pipelines.connect.places import unlike
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import BOOLEAN, FLOAT64, INT64, TIMESTAMP, Field, Schema, Type, decimal
from millstream.pipelines.connect.schema import STRING as TEXT

TOPIC = Option[str]("topic", STRING, default=REQUIRED, check=NOT_EMPTY, doc="Where the records go.", importance="HIGH")
FIELDS = Option[str](
    "fields",
    STRING,
    default='{"id": "sequence", "word": "word", "number": "int 0 999", "time": "time"}',
    check=NOT_EMPTY,
    doc="What a value holds, as JSON: each field's name and what it is made of; a mapping for fields within it.",
    importance="HIGH",
    width="LONG",
)
KEY = Option[str]("key", STRING, default="", doc="The field that is the key too; none when empty.")
RATE = Option[float](
    "rate", DOUBLE, default=10.0, check=at_least(0), doc="Records in a second, over all; 0: as fast as they are taken."
)
COUNT = Option[int](
    "count", LONG, default=-1, check=at_least(-1), doc="How many records there are, over all; -1: no end of them."
)
SEED = Option[int]("seed", LONG, default=0, doc="Another seed makes other records; the same one makes the same.")
GENERATORS = Option[int](
    "generators", INT, default=1, check=at_least(1), doc="How many make them side by side; each counts its own."
)

_WORDS = ("mill", "stream", "wheel", "stone", "grain", "flour", "river", "weir", "sack", "bridge", "willow", "heron")
_MASK = (1 << 64) - 1


class Draw:
    """Numbers by chance, the same for the same seed: splitmix64, for it begins anew with every record."""

    def __init__(self, *seed: int) -> None:
        self._state = 0
        for part in seed:
            self._state = (self._state ^ (part & _MASK)) & _MASK
            self._state = self.bits()

    def bits(self) -> int:
        """64 of them."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, count: int) -> int:
        return self.bits() % count

    def fraction(self) -> float:
        return (self.bits() >> 11) / (1 << 53)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a record is made of besides chance."""

    sequence: int
    time_ms: int


Make = Callable[[Draw, Moment], Any]


def _sequence() -> tuple[Schema, Make]:
    return INT64, lambda draw, moment: moment.sequence


def _time() -> tuple[Schema, Make]:
    schema = Schema(Type.INT64, name=TIMESTAMP, version=1)
    return schema, lambda draw, moment: datetime.fromtimestamp(moment.time_ms / 1000, UTC)


def _int(least: str, most: str) -> tuple[Schema, Make]:
    low, count = int(least), int(most) - int(least) + 1
    if count < 1:
        raise ValueError("the first number is the smaller one")
    return INT64, lambda draw, moment: low + draw.below(count)


def _float(least: str, most: str) -> tuple[Schema, Make]:
    low, width = float(least), float(most) - float(least)
    return FLOAT64, lambda draw, moment: low + draw.fraction() * width


def _decimal(least: str, most: str, digits: str) -> tuple[Schema, Make]:
    scale = int(digits)
    low, high = (int(Decimal(text).scaleb(scale)) for text in (least, most))
    if high < low:
        raise ValueError("the first number is the smaller one")
    return decimal(scale), lambda draw, moment: Decimal(low + draw.below(high - low + 1)).scaleb(-scale)


def _bool(share: str = "0.5") -> tuple[Schema, Make]:
    likely = float(share)
    return BOOLEAN, lambda draw, moment: draw.fraction() < likely


def _word() -> tuple[Schema, Make]:
    return _choice(*_WORDS)


def _choice(*words: str) -> tuple[Schema, Make]:
    if not words:
        raise ValueError("there is nothing to choose from")
    return TEXT, lambda draw, moment: words[draw.below(len(words))]


def _uuid() -> tuple[Schema, Make]:
    return TEXT, lambda draw, moment: str(uuid.UUID(int=draw.bits() << 64 | draw.bits(), version=4))


def _text(length: str) -> tuple[Schema, Make]:
    count = int(length)

    def make(draw: Draw, moment: Moment) -> str:
        return "".join(f"{draw.bits():016x}" for _ in range(count // 16 + 1))[:count]

    return TEXT, make


def _constant(*words: str) -> tuple[Schema, Make]:
    text = " ".join(words)
    return TEXT, lambda draw, moment: text


#: What fields may be made of; words behind the name are its arguments.
MAKERS: Mapping[str, Callable[..., tuple[Schema, Make]]] = {
    "bool": _bool,
    "choice": _choice,
    "constant": _constant,
    "decimal": _decimal,
    "float": _float,
    "int": _int,
    "sequence": _sequence,
    "text": _text,
    "time": _time,
    "uuid": _uuid,
    "word": _word,
}


def compile_fields(text: str) -> tuple[Schema, Make]:
    """The schema of a value, and what makes one; ValueError that says which field is wrong."""
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(fields, dict) or not fields:
        raise ValueError("must be a mapping of fields to what they are made of")
    return _struct(fields, "")


def _struct(fields: Mapping[str, Any], path: str) -> tuple[Schema, Make]:
    made = {name: _field(spec, f"{path}{name}") for name, spec in fields.items()}
    schema = Schema(Type.STRUCT, fields=tuple(Field(name, kind) for name, (kind, _) in made.items()))
    makers = [(name, make) for name, (_, make) in made.items()]
    return schema, lambda draw, moment: {name: make(draw, moment) for name, make in makers}


def _field(spec: Any, path: str) -> tuple[Schema, Make]:
    if isinstance(spec, dict) and spec:
        return _struct(spec, f"{path}.")
    if not isinstance(spec, str) or not spec.split():
        raise ValueError(f"{path}: must be text such as 'int 0 9', or a mapping")
    kind, *arguments = spec.split()
    if kind not in MAKERS:
        raise ValueError(f"{path}: {kind!r} is none of {', '.join(MAKERS)}")
    try:
        return MAKERS[kind](*arguments)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"{path}: {spec!r}: {error}") from None


class GeneratorSource(Source):
    """Each generator is a partition; its offset is how many records it made, and until when."""

    options = (TOPIC, FIELDS, KEY, RATE, COUNT, SEED, GENERATORS)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._clock = SystemClock()
        #: When each generator was first asked here, and how many it had made by then.
        self._began: dict[int, tuple[float, int]] = {}

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        try:
            schema, _ = compile_fields(config[FIELDS])
        except ValueError as error:
            return {FIELDS.name: str(error)}
        if config[KEY] and schema.field(config[KEY]) is None:
            return {KEY.name: f"there is no field {config[KEY]!r}"}
        return {}

    @classmethod
    def check_place(cls, partition: Partition, offset: Offset) -> str:
        wrong = unlike("partition", partition, {"generator": NUMBER})
        return wrong or unlike("offset", offset, {"count": NUMBER, "ms": NUMBER})

    def partitions(self) -> Sequence[Partition]:
        return [{"generator": number} for number in range(self.config[GENERATORS])]

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        number, made = partition["generator"], start["count"] if start else 0
        end = made + limit
        if self.config[RATE]:
            now_s = self._clock.monotonic_s()
            began_s, had = self._began.setdefault(number, (now_s, made))
            end = min(end, had + int((now_s - began_s) * self.config[RATE] / self.config[GENERATORS]))
        if self.config[COUNT] >= 0:
            # What does not divide evenly falls to the first ones.
            share, more = divmod(self.config[COUNT], self.config[GENERATORS])
            end = min(end, share + (number < more))
        return {"count": end, "ms": self._clock.now_ms()} if end > made else start

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        number, count = partition["generator"], end["count"]
        made, before_ms = (start["count"], start["ms"]) if start else (0, end["ms"])
        try:
            schema, make = compile_fields(self.config[FIELDS])
        except ValueError as error:
            raise Misconfigured(f"{FIELDS.name}: {error}") from None
        key, seed, generators = self.config[KEY], self.config[SEED], self.config[GENERATORS]
        for place in range(made, count):
            # Between the two moments they are evenly spread, and so the same when they are read again.
            time_ms = before_ms + (end["ms"] - before_ms) * (place - made + 1) // (count - made)
            value = make(Draw(seed, number, place), Moment(place * generators + number, time_ms))
            yield Record(
                self.config[TOPIC],
                value,
                value.get(key) if key else None,
                value_schema=schema,
                key_schema=schema.field(key) if key else None,
                timestamp_ms=time_ms,
            )
