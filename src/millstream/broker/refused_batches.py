"""What one connection's idempotent producers were refused: what they had sent behind it is refused alike.

A producer sends up to five batches before it has an answer.  If the first comes before this broker leads, or while too
few replicas are in sync, and the others a moment later, these are no fault of the producer: they are to be sent again
after the first.  Called out of order instead, librdkafka takes another producer id for all that it has on its way, and
what was in the log under the old one is then written twice; and where the producer is unknown, they would be taken
without the first.
"""

from typing import NamedTuple

from millstream.model.batch import SEQUENCE_MASK, BatchHeader
from millstream.model.errors import ErrorCode

#: Refusals after which a producer sends the same batch again.
SENT_AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
#: What was on its way at the refusal has come by then; a gap that is still there is one.
REMEMBERED_S = 10.0

#: Topic (by name or id) and partition.
Place = tuple[object, int]


class Refusal(NamedTuple):
    """The earliest batch refused, and why."""

    sequence: int
    code: ErrorCode
    until_s: float


class RefusedBatches:
    """By partition, producer and epoch."""

    __slots__ = ("_refusals",)

    def __init__(self) -> None:
        self._refusals: dict[tuple[Place, int, int], Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._refusals)

    def note(self, place: Place, header: BatchHeader, code: ErrorCode, now_s: float) -> None:
        """The batch was refused, and will be sent again."""
        if header.producer_id < 0 or self.code_for(place, header, now_s) is not None:
            return
        self._refusals = {key: each for key, each in self._refusals.items() if now_s < each.until_s}
        self._refusals[_key(place, header)] = Refusal(header.base_sequence, code, now_s + REMEMBERED_S)

    def code_for(self, place: Place, header: BatchHeader, now_s: float) -> ErrorCode | None:
        """Why a batch was refused that this one was sent behind, if one was and has not come again."""
        refusal = self._refusals.get(_key(place, header))
        if refusal is None or now_s >= refusal.until_s:
            return None
        is_behind = 0 < (header.base_sequence - refusal.sequence) & SEQUENCE_MASK <= SEQUENCE_MASK // 2
        return refusal.code if is_behind else None

    def taken(self, place: Place, header: BatchHeader) -> None:
        """A batch of the producer is in the log, and with it all before."""
        self._refusals.pop(_key(place, header), None)


def _key(place: Place, header: BatchHeader) -> tuple[Place, int, int]:
    return place, header.producer_id, header.producer_epoch
