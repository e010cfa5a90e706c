"""The records of ``__transaction_state``: where each transactional id's producer and transaction stand."""

from typing import Final, NamedTuple

from millstream.coordination.schemas.format import RecordFormat, key
from millstream.protocol.schema import Value, field, struct, value
from millstream.protocol.types import Array, Int8, Int16, Int32, Int64, String


@key
class TransactionLogKey(NamedTuple):
    transactional_id: str


@struct
class PartitionsSchema:
    topic: str = field(String)
    partition_ids: list[int] = field(Array(Int32))


@value(versions="0-1", flexible="1+", written=1)
class TransactionLogValue(Value):
    """v1 is for transaction.version 1 and 2; without that feature Kafka writes v0."""

    producer_id: int = field(Int64)
    previous_producer_id: int = field(Int64, "1+", default=-1, tag=0)
    next_producer_id: int = field(Int64, "1+", default=-1, tag=1)
    producer_epoch: int = field(Int16)
    next_producer_epoch: int = field(Int16, "1+", default=-1, tag=3)
    transaction_timeout_ms: int = field(Int32)
    #: 0: empty, 1: ongoing, 2: prepare commit, 3: prepare abort, 4: complete commit, 5: complete abort, 6: dead,
    #: 7: prepare epoch fence.
    transaction_status: int = field(Int8)
    #: None while no transaction has begun.
    transaction_partitions: list[PartitionsSchema] | None = field(Array(PartitionsSchema), nullable="0+")
    transaction_last_update_timestamp_ms: int = field(Int64)
    transaction_start_timestamp_ms: int = field(Int64)
    client_transaction_version: int = field(Int16, "1+", tag=2)


FORMAT: Final = RecordFormat({0: (TransactionLogKey, TransactionLogValue)})

encode_record = FORMAT.encode
decode_record = FORMAT.decode
