"""Whether transactional batches may begin their transaction in their partitions: asked of its coordinator (KIP-890).

A producer that sends Produce v12 leaves it to us to have the partition added to its transaction; an older one has
asked for that itself, and we only make sure, so that a late batch does not begin a transaction that nobody ends.
"""

from millstream.broker.broker import Broker
from millstream.config.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from millstream.model.batch import HEADER_BYTES, TRANSACTIONAL, header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.net.eager import Begun
from millstream.protocol.messages.produce import PartitionProduceData, ProduceRequest
from millstream.replication import admission
from millstream.replication.partition import Partition
from millstream.storage.verification import UNVERIFIED, Verification

ADDS_FROM_VERSION = 12
ABORTABLE_FROM_VERSION = 11
#: What a coordinator answers that producers of any version do not expect, and what they are told instead.  Not to have
#: enough replicas makes them try again, and look nothing up.
TRANSLATED = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.NOT_ENOUGH_REPLICAS,
}
#: The same for producers before some version.
TRANSLATED_BEFORE = {
    ErrorCode.CONCURRENT_TRANSACTIONS: (ADDS_FROM_VERSION, ErrorCode.NOT_ENOUGH_REPLICAS),
    ErrorCode.TRANSACTION_ABORTABLE: (ABORTABLE_FROM_VERSION, ErrorCode.INVALID_TXN_STATE),
}

Verdicts = dict[TopicPartition, ErrorCode]


class Verifying:
    """One request's batches that would begin a transaction, and what its coordinator says to them."""

    __slots__ = ("_adds", "_asked", "_begun", "_broker", "_request", "_version", "guards", "refusals")

    def __init__(self, broker: Broker, request: ProduceRequest, version: int) -> None:
        self._broker = broker
        self._request = request
        self._version = version
        self._adds = version >= ADDS_FROM_VERSION
        self._asked: list[tuple[TopicPartition, PartitionProduceData]] = []
        self._begun: Begun[Verdicts] | None = None
        #: What to append each batch under, and why some are refused, by the identity of their data.
        self.guards: dict[int, Verification] = {}
        self.refusals: dict[int, ProtocolError] = {}

    def begin(self) -> bool:
        """Ask what must be asked; whether the answer has to be waited for."""
        producers = self._note_batches()
        if len(producers) > 1:
            self._refuse_all(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a transaction has one producer")
        elif self._asked:
            self._ask(*producers.pop())
        return self._begun is not None

    async def finish(self) -> None:
        """Wait for the coordinator's answer."""
        assert self._begun is not None
        try:
            self._take(await self._begun)
        except ProtocolError as refusal:
            self._refuse_all(self._translated(refusal.code), refusal.detail)

    def _note_batches(self) -> set[tuple[int, int]]:
        """Find the batches that would begin a transaction; the producers, by id and epoch, of all in transactions."""
        producers = set()
        is_checked = self._adds or self._broker.settings.config.get(TRANSACTION_PARTITION_VERIFICATION_ENABLE)
        replicas = self._broker.replicas
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                if data.records is None or len(data.records) < HEADER_BYTES:
                    continue  # The append refuses it.
                header = header_at(data.records)
                if not header.attributes & TRANSACTIONAL:
                    continue
                producers.add((header.producer_id, header.producer_epoch))
                try:
                    name = topic.name or replicas.topic_name(topic.topic_id)
                    partition = replicas.find_for_client(name, data.index)
                    if not is_checked:
                        self.guards[id(data)] = UNVERIFIED
                    elif partition.needs_verification(header):
                        self._note(partition, data)
                except ProtocolError as refusal:
                    self.refusals[id(data)] = refusal
        return producers

    def _note(self, partition: Partition, data: PartitionProduceData) -> None:
        assert isinstance(data.records, memoryview)
        header = admission.checked_batch(data.records)
        self.guards[id(data)] = partition.begin_verification(header, adds=self._adds)
        self._asked.append((partition.topic_partition, data))

    def _ask(self, producer_id: int, producer_epoch: int) -> None:
        assert self._request.transactional_id is not None
        try:
            partitions = [topic_partition for topic_partition, _ in self._asked]
            begun = Begun(
                self._broker.transactions.admit(
                    self._request.transactional_id, producer_id, producer_epoch, partitions, self._adds
                )
            )
        except ProtocolError as refusal:
            self._refuse_all(self._translated(refusal.code), refusal.detail)
            return
        if begun.is_done:
            self._take(begun.result)
        else:
            self._begun = begun

    def _take(self, verdicts: Verdicts) -> None:
        for topic_partition, data in self._asked:
            code = verdicts[topic_partition]
            if code:
                detail = f"the transaction's coordinator answered {code.name}"
                self.refusals[id(data)] = ProtocolError(self._translated(code), detail)

    def _translated(self, code: ErrorCode) -> ErrorCode:
        before_version, instead = TRANSLATED_BEFORE.get(code, (0, code))
        return instead if self._version < before_version else TRANSLATED.get(code, code)

    def _refuse_all(self, code: ErrorCode, detail: str) -> None:
        for _, data in self._asked:
            self.refusals[id(data)] = ProtocolError(code, detail)
