"""Whether a transaction may begin in a partition: what is remembered while its coordinator is asked.

The transaction's marker, if it comes before the answer, ends the question, so that a batch the coordinator agreed to
before an abort is not appended after it, into a transaction that nobody would end (KIP-890).
"""

from millstream.model.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE


class Verification:
    """One producer's open question.  The object itself is the guard: it counts only while it is the current one."""

    __slots__ = ("adds", "begun_ms", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, adds: bool, now_ms: int) -> None:
        self.epoch = epoch
        #: A batch behind one that was turned away must not be taken before it.
        self.lowest_sequence = sequence
        #: The coordinator was asked to add the partition, so the producer starts here at sequence 0.
        self.adds = adds
        self.begun_ms = now_ms

    def widen(self, epoch: int, sequence: int) -> None:
        """Another batch of the producer asks the same."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch = epoch
            self.lowest_sequence = sequence


#: For whoever need not ask, because ``transaction.partition.verification.enable`` is off.
UNVERIFIED = Verification(NO_PRODUCER_EPOCH, NO_SEQUENCE, adds=False, now_ms=0)
