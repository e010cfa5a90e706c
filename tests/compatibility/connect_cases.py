"""Cases for Kafka Connect's converters, transforms and predicates, which Apache Kafka and we are to judge alike."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    decimal,
    struct,
)

A_DATE = Schema(Type.INT32, name=DATE, version=1)
A_TIME = Schema(Type.INT32, name=TIME, version=1)
A_MOMENT = Schema(Type.INT64, name=TIMESTAMP, version=1)
FLOAT32 = Schema(Type.FLOAT32)
MOMENT = datetime(2024, 2, 29, 13, 5, 7, 89_000, UTC)
TIMESTAMP_MS = 1_709_211_907_089

ADDRESS = struct("Address", street=STRING, number=INT32.as_optional())
ORDER = Schema(
    Type.STRUCT,
    name="Order",
    version=3,
    doc="An order.",
    parameters=(("owner", "sales"),),
    fields=(
        Field("id", INT64),
        Field("name", STRING.as_optional()),
        Field("small", Schema(Type.INT8)),
        Field("ratio", FLOAT64),
        Field("narrow", FLOAT32),
        Field("is_paid", BOOLEAN),
        Field("data", BYTES.as_optional()),
        Field("price", decimal(2)),
        Field("day", A_DATE),
        Field("hour", A_TIME),
        Field("at", A_MOMENT),
        Field("level", Schema(Type.INT32, optional=True, default=7)),
        Field("address", ADDRESS.as_optional()),
        Field("tags", Schema(Type.ARRAY, values=STRING)),
    ),
)
AN_ORDER = {
    "id": 300,
    "name": "Ann",
    "small": -5,
    "ratio": 1234567.25,
    "narrow": 1.5,
    "is_paid": True,
    "data": b"\x00\xff",
    "price": Decimal("-12.50"),
    "day": date(2024, 2, 29),
    "hour": time(13, 5, 7, 89_000),
    "at": MOMENT,
    "level": None,
    "address": {"street": "Elm", "number": None},
    "tags": ["a", "b"],
}
MAPS = struct(
    "Maps",
    texts=Schema(Type.MAP, keys=STRING, values=INT32),
    numbers=Schema(Type.MAP, keys=INT32, values=STRING.as_optional()),
)
PLAIN = {
    "id": 300,
    "name": "Ann",
    "ratio": 1.5,
    "is_paid": True,
    "none": None,
    "in": {"a": {"b": 1}, "c": [1]},
    "at": 1,
}

#: Not among them: numbers with an exponent, which are the same but spelled differently.
SCHEMAS_AND_VALUES: list[tuple[Schema | None, Any]] = [
    (ORDER, AN_ORDER),
    (ORDER, {**AN_ORDER, "address": None, "data": None, "name": None, "level": 0}),
    (MAPS, {"texts": {"a": 1, "b": -1}, "numbers": {1: "x", 2: None}}),
    (decimal(0), Decimal(128)),
    (decimal(-2), Decimal("3E+2")),
    (decimal(3, optional=True), None),
    (Schema(Type.STRING, default="so", doc="text"), 'é\u2028\x7f\u0001"\\/'),
    (Schema(Type.FLOAT64), 0.1),
    (FLOAT32, 0.10000000149011612),
    (FLOAT32, 1234567.125),
    (Schema(Type.ARRAY, values=A_DATE), [date(1969, 12, 31), date(9999, 12, 31)]),
    (Schema(Type.INT64, default=5), -(2**63)),
    (None, PLAIN),
    (None, [1, 2.5, "x", None, True]),
    (None, "text"),
]
#: Not among them: those of which Kafka reads only the beginning, as of 12:30, where we keep the text.
LITERALS = (
    *("12", "-129", "70000", "3000000000", "9223372036854775808", "1.0", "1.5", "0.1", "1e3", "1e40", "1e400", "+7"),
    *("true", "false", "True", "", " ", " 12 ", "text", "1a", "-", "2024-02-29", "2024-02-29T13:05:07.089Z"),
    *("13:05:07.089Z", "[]", "[1,2]", "[1,300,70000]", "[1,2.5]", '["a","b"]', '[1,"a"]', "[1,", "[a]"),
    *('{"a":1,"b":2}', '{"a":1,"b":null}', "{1:2}", '{"a":[1,2]}', '["a\\"b"]', "[true,false]", "[null]", "]"),
    *("[2024-02-29]", "[13:05:07.089Z]", '["2024-02-29"]', "true}", "[ 1 , 2 ]", '{"a" : "b" }', "a,b"),
    *(
        "{a:1}",
        "[1,,2]",
        "{1:2,3:4}",
        '"text"',
        "\\[",
        "[1,null]",
        "+",
        "1e",
        "0x10",
        "[+1]",
    ),
)
TEXTS: list[tuple[Schema | None, Any]] = [
    (STRING, "text"),
    (INT64, -5),
    (FLOAT64, 1e7),
    (FLOAT64, 0.001),
    (FLOAT64, 0.00099),
    (FLOAT64, 100.0),
    (FLOAT32, 0.10000000149011612),
    (BOOLEAN, True),
    (decimal(2), Decimal("1.50")),
    (A_MOMENT, MOMENT),
    (A_DATE, date(2024, 2, 29)),
    (Schema(Type.ARRAY, values=STRING), ["a", "b"]),
    (ADDRESS, {"street": "Elm", "number": None}),
    (None, {"a": 1}),
    (None, [1, None, 2.5]),
]


#: Patterns of dates, and texts to read by them.
DATES_READ = (
    ("yyyy-MM-dd", "2024-02-29"),
    ("yyyy-MM-dd", "2024-2-9 and more"),
    ("yyyy-MM-dd", "2024-13-45"),
    ("yyyyMMddHHmmss", "20240229130507"),
    ("yy/M/d h:mm a", "24/2/9 1:05 PM"),
    ("yy/M/d h:mm a", "69/2/9 12:05 am"),
    ("dd MMM yyyy", "29 Feb 2024"),
    ("EEE, d MMMM yyyy HH:mm:ss Z", "Thu, 29 February 2024 13:05:07 +0130"),
    ("yyyy-MM-dd'T'HH:mm:ssX", "2024-02-29T13:05:07-02"),
    ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-02-29T13:05:07+02:00"),
    ("yyyy-MM-dd HH:mm z", "2024-02-29 13:05 GMT"),
    ("yyyy D", "2024 60"),
    ("kk:mm", "24:05"),
    ("KK:mm a", "11:05 PM"),
    ("ss.SSSSSS", "01.123456"),
    ("yyyy-MM-dd", "x"),
    ("yyyy-MM-dd HH", "2024-02-29"),
    ("'o''clock' HH", "o'clock 13"),
)
#: Patterns to write dates by.
DATES_WRITTEN = (
    *(
        "yyyy-MM-dd",
        "yy",
        "y",
        "yyyyy",
        "M",
        "MM",
        "MMM",
        "MMMM",
        "d",
        "D",
        "E",
        "EEEE",
        "u",
        "a",
        "H",
        "k",
        "K",
        "h",
    ),
    *(
        "m",
        "s",
        "S",
        "SSSSSS",
        "z",
        "zzzz",
        "Z",
        "X",
        "XXX",
        "G",
        "YYYY",
        "w",
        "W",
        "F",
        "'T'''",
        "HHmm 'h'",
        "dd''MM",
    ),
)


def _order() -> Record:
    return order()


@dataclass(frozen=True)
class Case:
    """A plugin, its config, and a record for it."""

    plugin: str
    config: dict[str, str] = field(default_factory=dict)
    record: Record = field(default_factory=_order)


def order(**changes: Any) -> Record:
    """An order on its way to a sink."""
    told: dict[str, Any] = {
        "topic": "shop.orders",
        "value": AN_ORDER,
        "value_schema": ORDER,
        "key": "k",
        "key_schema": STRING,
        "headers": [Header("trace", "abc", STRING), Header("n", 1, INT32), Header("trace", "def", STRING)],
        "partition": 3,
        "offset": 42,
        "timestamp_ms": TIMESTAMP_MS,
    }
    return Record(**{**told, **changes})


def plain(value: Any = PLAIN, **changes: Any) -> Record:
    """The same without a schema."""
    return order(value=value, value_schema=None, **changes)


def of(value: Any, schema: Schema | None) -> Record:
    """A record of a value."""
    return order(value=value, value_schema=schema)


_GONE = order(value=None, value_schema=None)
_NULL = order(value=None, value_schema=ORDER.as_optional())
_SOURCE = order(offset=None, partition=None, timestamp_ms=None)


def transforms() -> Iterator[Case]:
    """Transforms, and what is asked of them."""
    yield from _casts()
    yield from _of_fields()
    yield from _of_records()
    yield from _of_moments()


def _casts() -> Iterator[Case]:
    for spec in (
        *("id:int8", "id:int16,small:string", "ratio:int32,narrow:int64", "is_paid:int8,small:boolean,name:string"),
        *("price:int8", "price:string,price:float64", "at:int64", "at:string", "day:string,hour:string", "day:int32"),
        *("data:string", "level:string", "tags:string", "data:int8", "ratio:string,narrow:string", "name:int32"),
        *("absent:int8", "id:float32,small:float64"),
    ):
        yield Case("Cast$Value", {"spec": spec})
    for spec in ("id:string,ratio:int32", "name:boolean", "none:int8", "absent:int8", "in:string", "is_paid:float32"):
        yield Case("Cast$Value", {"spec": spec}, plain())
    texts = (
        ("int8", "12"),
        ("int8", "300"),
        ("float64", " 1e3 "),
        ("float64", "x"),
        ("boolean", "TRUE"),
        ("int64", "1.5"),
    )
    for kind, text in (*texts, ("float32", "1.1f"), ("int32", "+5"), ("int32", " 5")):
        yield Case("Cast$Value", {"spec": kind}, of(text, STRING))
    for kind, number in (("int8", 1e10), ("int32", 1e10), ("int64", 1e30), ("int16", -1.9), ("boolean", 0.5)):
        yield Case("Cast$Value", {"spec": kind}, of(number, FLOAT64))
    yield Case("Cast$Value", {"spec": "string"}, of(5, Schema(Type.INT32, True, "Five", 2, "doc", 5)))
    yield Case("Cast$Key", {"spec": "int8"}, order(key="7"))
    yield Case("Cast$Value", {"spec": "id:int8"}, _GONE)
    yield Case("Cast$Value", {"spec": "id:int8"}, _NULL)
    yield Case("Cast$Value", {"spec": "level:int8", "replace.null.with.default": "false"})


def _of_fields() -> Iterator[Case]:
    for config in ({"field": "id"}, {"field": "level"}, {"field": "absent"}, {"field": "address.street"}):
        for version in ("V1", "V2"):
            yield Case("ExtractField$Value", {**config, "field.syntax.version": version})
    for path in ("in.a.b", "in.a", "in.c.x", "none.x", "`in`.a", "absent", "in..a", "in.a."):
        yield Case("ExtractField$Value", {"field": path, "field.syntax.version": "V2"}, plain())
    yield Case("ExtractField$Value", {"field": "level", "replace.null.with.default": "false"})
    for record in (_GONE, _NULL, plain("text"), of("text", STRING)):
        yield Case("ExtractField$Value", {"field": "id"}, record)
        yield Case("HoistField$Value", {"field": "id"}, record)
        yield Case("ReplaceField$Value", {"exclude": "id"}, record)
        yield Case("ValueToKey", {"fields": "id"}, record)
        yield Case("MaskField$Value", {"fields": "id"}, record)
        yield Case("Flatten$Value", {}, record)
        yield Case("InsertField$Value", {"topic.field": "topic"}, record)
        yield Case("HeaderFrom$Value", {"fields": "id", "headers": "h", "operation": "move"}, record)
    yield Case("HoistField$Key", {"field": "key"})
    for config in (
        {"exclude": "id,tags"},
        {"include": "id,name,level"},
        {"include": "id,name", "exclude": "id"},
        {"renames": "id:number,name:who"},
        {"renames": "id:number", "include": "id,level", "replace.null.with.default": "false"},
    ):
        yield Case("ReplaceField$Value", config)
        yield Case("ReplaceField$Value", config, plain())
    yield Case("ValueToKey", {"fields": "name,level"})
    yield Case("ValueToKey", {"fields": "name,absent"})
    yield Case("ValueToKey", {"fields": "name,absent"}, plain())
    for fields in ("id,name,small,ratio,narrow,is_paid", "day,hour,at", "tags", "level", "address", "data"):
        yield Case("MaskField$Value", {"fields": fields})
        yield Case("MaskField$Value", {"fields": fields, "replacement": "300.7"})
    for fields in ("id,name,ratio", "in", "none", "absent", "is_paid"):
        yield Case("MaskField$Value", {"fields": fields}, plain())
        yield Case("MaskField$Value", {"fields": fields, "replacement": "5"}, plain())
    yield Case("MaskField$Value", {"fields": "id", "replacement": "x"})
    yield Case("MaskField$Value", {"fields": "texts"}, of({"texts": {"a": 1}, "numbers": {}}, MAPS))


def _of_records() -> Iterator[Case]:
    yield Case("Flatten$Value")
    yield Case("Flatten$Value", {"delimiter": "_"}, plain())
    yield Case("Flatten$Value", {}, of({"texts": {}, "numbers": {}}, MAPS))
    yield Case("Flatten$Value", {}, of({**AN_ORDER, "address": None}, ORDER))
    told = {"topic.field": "t", "partition.field": "p!", "offset.field": "o?", "timestamp.field": "at2"}
    for config in (
        told,
        {"static.field": "s", "static.value": "text"},
        {"timestamp.field": "ts", "partition.field": "p"},
    ):
        for record in (order(), plain(), _SOURCE, plain(offset=None, partition=None, timestamp_ms=None)):
            yield Case("InsertField$Value", config, record)
    yield Case("InsertField$Key", {"topic.field": "t"}, order(key={"a": 1}, key_schema=None))
    for operation in ("move", "copy"):
        for fields in ("id,level", "absent"):
            config = {"fields": fields, "headers": ",".join("ab"[: fields.count(",") + 1]), "operation": operation}
            yield Case("HeaderFrom$Value", config)
            yield Case("HeaderFrom$Value", config, plain())
    for literal in LITERALS[:20]:
        yield Case("InsertHeader", {"header": "new", "value.literal": literal})
    yield Case("DropHeaders", {"headers": "trace"})
    yield Case("DropHeaders", {"headers": "n,absent"})
    yield Case("Filter")
    for regex, replacement in (
        (r"shop\.(.*)", "store-$1"),
        ("orders", "x"),
        ("(?<a>[a-z]+)\\.(?<b>.*)", "${b}.${a}"),
        (r"(.)(.*)", "$2$1$10"),
        ("(shop|shop.orders)", "<$1>"),
        (r"\p{Lower}+\.\w*", "\\$1"),
        (".*", "$3"),
        ("(x)?shop.*", "a$1b"),
    ):
        yield Case("RegexRouter", {"regex": regex, "replacement": replacement})
    yield Case("TimestampRouter")
    yield Case(
        "TimestampRouter", {"topic.format": "${timestamp}/${topic}", "timestamp.format": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}
    )
    yield Case("TimestampRouter", {}, order(timestamp_ms=None))
    for config in ({"schema.name": "New"}, {"schema.version": "9"}, {"schema.name": "New", "schema.version": "9"}):
        yield Case("SetSchemaMetadata$Value", config)
        yield Case("SetSchemaMetadata$Key", config, order(key={"street": "Elm"}, key_schema=ADDRESS))
    for record in (_GONE, _NULL, plain()):
        yield Case("SetSchemaMetadata$Value", {"schema.name": "New"}, record)


def _of_moments() -> Iterator[Case]:
    iso = "yyyy-MM-dd'T'HH:mm:ss.SSS"
    for target in ("string", "unix", "Date", "Time", "Timestamp"):
        for name in ("at", "day", "hour", "id", "name", "level"):
            config = {"field": name, "target.type": target, "format": iso}
            yield Case("TimestampConverter$Value", config)
        for precision in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
            config = {"target.type": target, "format": iso, "unix.precision": precision}
            # Python's years end where Java's go on.
            for value in (1_700_000_000, -1001, 1):
                yield Case("TimestampConverter$Value", config, of(value, INT64))
            yield Case("TimestampConverter$Value", config, of(MOMENT, A_MOMENT))
        if target in ("string", "unix"):
            yield Case("TimestampConverter$Value", {"field": "at", "target.type": target, "format": iso}, plain())
        yield Case("TimestampConverter$Value", {"target.type": target, "format": iso}, _GONE)
        yield Case("TimestampConverter$Value", {"field": "at", "target.type": target, "format": iso}, _NULL)
    for pattern, text in DATES_READ:
        yield Case("TimestampConverter$Value", {"target.type": "unix", "format": pattern}, of(text, STRING))
    for pattern in DATES_WRITTEN:
        for timestamp_ms in (TIMESTAMP_MS, 0, 1_735_603_200_000, -1):
            config = {"target.type": "string", "format": pattern}
            yield Case("TimestampConverter$Value", config, of(timestamp_ms, INT64))


def predicates() -> Iterator[Case]:
    """Predicates, and what is asked of them."""
    yield Case("HasHeaderKey", {"name": "trace"})
    yield Case("HasHeaderKey", {"name": "absent"})
    yield Case("RecordIsTombstone")
    yield Case("RecordIsTombstone", {}, _GONE)
    yield Case("RecordIsTombstone", {}, _NULL)
    yield Case("TopicNameMatches", {"pattern": "shop.*"})
    yield Case("TopicNameMatches", {"pattern": "shop"})
