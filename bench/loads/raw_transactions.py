"""Transactions as the newest clients make them: one produce to some partitions, then the end, one after the other.

Produce 12 adds its partitions to the transaction, and EndTxn 5 gives each transaction an epoch of its own.
"""

import struct
import time

from fastcrc.crc32 import iscsi as crc32c

from bench import messages, wire
from bench.loads import options
from millstream.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

INIT_VERSION, PRODUCE_VERSION, END_VERSION = 5, 12, 5
TIMEOUT_MS = 60_000
#: The transaction before has not ended everywhere yet; the coordinator, or a partition's leader, is not there yet.
AGAIN = (51, 14, 16, 3, 6)
AGAIN_AFTER_S = 0.001
TRANSACTIONAL = 0x10
#: Attributes; then, behind offset delta and timestamps, the producer's id, epoch and first sequence number.
_ATTRIBUTES, _PRODUCER, _CRC = struct.Struct(">h"), struct.Struct(">qhi"), struct.Struct(">I")
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 17, 21, 43


class Transactions:
    """One transactional producer on one connection."""

    def __init__(self, connection: wire.Connection, topic: str, partitions: int, records: int) -> None:
        self.connection, self.topic = connection, topic
        self.name = f"txn-{topic}"
        batch = bytearray(wire.encode_batch([b"v" * options.RECORD_BYTES] * (records // partitions)))
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, TRANSACTIONAL)
        self._batch, self._partitions, self._records = batch, partitions, records // partitions
        self._sequence = 0
        begun = self._again(InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS))
        self.producer_id, self.epoch = begun.producer_id, begun.producer_epoch

    def _again(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        while True:
            begun = messages.ask(self.connection, request, InitProducerIdResponse, INIT_VERSION)
            if begun.error_code not in AGAIN:
                messages.check(f"producer id of {self.name}", begun.error_code)
                return begun
            time.sleep(AGAIN_AFTER_S)

    def run(self) -> None:
        """One transaction, from its first record until the coordinator says that it is committed."""
        batch = self._batch
        _PRODUCER.pack_into(batch, _PRODUCER_AT, self.producer_id, self.epoch, self._sequence)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
        records = bytes(batch)
        rows = [PartitionProduceData(index=index, records=records) for index in range(self._partitions)]
        produce = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self.topic, partition_data=rows)],
        )
        frame = messages.frame(produce, PRODUCE_VERSION)
        for row in self._produced(frame):
            while row.error_code in AGAIN:  # What was taken already is a repeat, and told apart by its number.
                time.sleep(AGAIN_AFTER_S)
                row = self._produced(frame)[row.index]
            messages.check(f"produce to {self.topic}", row.error_code)
        end = EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=True
        )
        while True:
            ended = messages.ask(self.connection, end, EndTxnResponse, END_VERSION)
            if ended.error_code not in AGAIN:
                break
            time.sleep(AGAIN_AFTER_S)
        messages.check(f"end of {self.name}", ended.error_code)
        is_new = (ended.producer_id, ended.producer_epoch) != (self.producer_id, self.epoch)
        self.producer_id, self.epoch = ended.producer_id, ended.producer_epoch
        self._sequence = 0 if is_new else self._sequence + self._records

    def _produced(self, frame: bytes) -> list[PartitionProduceResponse]:
        answer = messages.answer(ProduceResponse, self.connection.ask(frame), PRODUCE_VERSION)
        return answer.responses[0].partition_responses


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--transactions", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=0, help="transactions before the clock starts")
    parser.add_argument("--records", type=int, default=100, help="in each transaction")
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    with wire.Connection(given.server) as connection:
        connection.create_topic(given.topic, given.partitions)
        connection.await_topic(given.topic)
        messages.await_coordinator(connection, messages.TRANSACTION, f"txn-{given.topic}")
        transactions = Transactions(connection, given.topic, given.partitions, given.records)
        for _ in range(given.warm_up):
            transactions.run()
        each = (
            given.records // given.partitions + 1
        )  # A transaction ends with a marker, which may come after its answer.
        connection.await_offset(given.topic, given.warm_up * each)
        started = time.perf_counter()
        for _ in range(given.transactions):
            transactions.run()
        took_s = time.perf_counter() - started
        expected = (given.warm_up + given.transactions) * each
        stored = connection.await_offset(given.topic, expected)
    if stored != expected:
        raise SystemExit(f"{expected} records and markers were written to the first partition, it has {stored}")
    options.report(transactions_per_s=given.transactions / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
