"""The options of the sink: a table, and the columns that rows may have.

Names are those of Spark's Kafka sink, and of the Kafka producer settings that mean something here; other ``kafka.``
options are taken and left alone, so that code moves unchanged. What cannot be honoured is refused, by name and value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from millstream.client.wire import parse_addresses
from millstream.config.setting import (
    INT,
    INT_MAX,
    LONG,
    MIB,
    MINUTE_MS,
    NOT_EMPTY,
    STRING,
    Setting,
    SettingError,
    at_least,
    between,
    one_of,
    table,
)
from millstream.model.compression import CODEC_IDS
from millstream.pipelines.spark.options import BOOTSTRAP, TIMEOUT_MS, Options, refuse
from millstream.pipelines.spark.sink import coordinator

EXACTLY_ONCE = "exactly-once"
AT_LEAST_ONCE = "at-least-once"

TOPIC = Setting("topic", STRING, default="", check=NOT_EMPTY, doc="Where all rows go; overrides a column of that name.")
DELIVERY = Setting(
    "delivery",
    STRING,
    default=EXACTLY_ONCE,
    check=one_of(EXACTLY_ONCE, AT_LEAST_ONCE),
    doc="Whether a batch is committed once or not at all, or may come again after a failure.",
)
APP_ID = Setting(
    "txnAppId", STRING, default="", check=NOT_EMPTY, doc="Who writes, where Spark does not know: in foreachBatch."
)
VERSION = Setting(
    "txnVersion", LONG, default=-1, check=at_least(0), doc="The number of this write; rises, and is written once."
)
CHECKPOINT = Setting(
    "checkpointLocation", STRING, default="", doc="Spark's own; tells whose batch it is when no task came to its end."
)
DECISIONS_TOPIC = Setting(
    "decisionsTopic",
    STRING,
    default=coordinator.DECISIONS_TOPIC,
    check=NOT_EMPTY,
    doc="The compacted topic in which it is decided what each batch is made of; made when it is not there.",
)
COMPRESSION = Setting(
    "kafka.compression.type", STRING, default="none", check=one_of(*CODEC_IDS), doc="How batches are compressed."
)
BATCH_BYTES = Setting(
    "kafka.batch.size",
    INT,
    default=900_000,
    check=at_least(1),
    doc="A batch holds no more bytes than this, uncompressed.",
)
BUFFER_BYTES = Setting(
    "kafka.buffer.memory",
    LONG,
    default=32 * MIB,
    check=at_least(MIB),
    doc="What a task holds of rows on their way, at most.",
)
RECORD_BYTES = Setting(
    "kafka.max.request.size", INT, default=1 * MIB, check=at_least(1), doc="A record may not be larger than this."
)
TRANSACTION_TIMEOUT_MS = Setting(
    "kafka.transaction.timeout.ms",
    INT,
    default=0,
    check=between(1, INT_MAX),
    doc="Ordinary transactions with this time-out, in place of two-phase ones without any.",
)
METADATA_AGE_MS = Setting(
    "kafka.metadata.max.age.ms",
    LONG,
    default=5 * MINUTE_MS,
    check=at_least(0),
    doc="How many partitions a topic has is asked again after this long.",
)
CLIENT_ID = Setting(
    "kafka.client.id", STRING, default="millstream-spark-sink", check=NOT_EMPTY, doc="Our name in the broker's log."
)
ACKS = Setting(
    "kafka.acks",
    STRING,
    default="all",
    check=one_of("all", "-1", "1", "0"),
    doc="All replicas are waited for in any case.",
)

#: Everything the sink looks at.
TABLE: Mapping[str, Setting[Any]] = table(list(globals().values()))
#: What the sink must decide itself.
_DECIDED_HERE = frozenset(
    {
        "kafka.key.serializer",
        "kafka.value.serializer",
        "kafka.interceptor.classes",
        "kafka.transactional.id",
        "kafka.enable.idempotence",
        "kafka.partitioner.class",
    }
)
#: What it looks at as the source does, and what Spark's own sink takes for headers, which are a column here.
SHARED = (BOOTSTRAP.name, TIMEOUT_MS.name, "includeHeaders")


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was asked for, checked."""

    bootstrap: str
    topic: str
    is_exactly_once: bool
    app_id: str
    version: int
    checkpoint: str
    decisions_topic: str
    compression: int
    batch_bytes: int
    buffer_bytes: int
    record_bytes_max: int
    transaction_timeout_ms: int
    timeout_ms: int
    metadata_age_max_ms: int
    client_id: str

    @property
    def writer(self) -> str:
        """Who writes, where the options say it: to each topic that they name an application writes for itself."""
        return f"{self.app_id}/{self.topic}" if self.app_id and self.topic else self.app_id


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """The options as given, or a SettingError that names one and its value."""
    options = Options(given)
    options.check_names([*TABLE, *SHARED], _DECIDED_HERE, "the sink decides this itself")
    bootstrap = options[BOOTSTRAP]
    try:
        parse_addresses(bootstrap)
    except ValueError as error:
        refuse(BOOTSTRAP, bootstrap, str(error))
    if (APP_ID in options) != (VERSION in options):
        one, other = (APP_ID, VERSION) if APP_ID in options else (VERSION, APP_ID)
        refuse(one, options.text(one), f"goes together with {other.name}, which is not given")
    _ = options[ACKS]  # Checked, and that is all.
    return SinkOptions(
        bootstrap=bootstrap,
        topic=options[TOPIC],
        is_exactly_once=options[DELIVERY] == EXACTLY_ONCE,
        app_id=options[APP_ID],
        version=options[VERSION],
        checkpoint=options[CHECKPOINT],
        decisions_topic=options[DECISIONS_TOPIC],
        compression=CODEC_IDS[options[COMPRESSION]],
        batch_bytes=options[BATCH_BYTES],
        buffer_bytes=options[BUFFER_BYTES],
        record_bytes_max=options[RECORD_BYTES],
        transaction_timeout_ms=options[TRANSACTION_TIMEOUT_MS],
        timeout_ms=options[TIMEOUT_MS],
        metadata_age_max_ms=options[METADATA_AGE_MS],
        client_id=options[CLIENT_ID],
    )


#: The time of a record in milliseconds. A column called timestamp is left alone, as by Spark's own sink.
TIME_COLUMN = "timestamp_ms"
#: Columns that mean something, and the types each may have; any other column is left out of the records.
_BYTES: tuple[type[DataType], ...] = (StringType, BinaryType)
COLUMNS: Mapping[str, tuple[type[DataType], ...]] = {
    "topic": (StringType,),
    "partition": (IntegerType,),
    "key": _BYTES,
    "value": _BYTES,
    "headers": (ArrayType,),
    TIME_COLUMN: (LongType,),
}


def check_schema(schema: StructType, options: SinkOptions) -> dict[str, int]:
    """Where each known column is; SettingError where one has a wrong type or what is needed is missing."""
    found = {}
    for place, column in enumerate(schema.fields):
        name = column.name.lower()
        types = COLUMNS.get(name)
        if types is None:
            continue
        if not isinstance(column.dataType, types) or (name == "headers" and not _is_headers(column.dataType)):
            wanted = " or ".join(kind.typeName() for kind in types)
            if name == "headers":
                wanted = "array<struct<key:string,value:binary>>"
            raise SettingError(f"column {name} is of type {column.dataType.simpleString()}, not {wanted}")
        found[name] = place
    if "value" not in found:
        raise SettingError(f"there is no column value, only {', '.join(schema.names) or 'none at all'}")
    if "topic" not in found and not options.topic:
        raise SettingError("where to write is not said: give the option topic, or a column of that name")
    return found


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    types = [field.dataType for field in kind.elementType.fields]
    return len(types) == 2 and isinstance(types[0], StringType) and isinstance(types[1], BinaryType)
