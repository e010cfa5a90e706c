"""What a consumer has fetched, handed out and had processed: the arithmetic of its commits."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from confluent_kafka import Message
from confluent_kafka import TopicPartition as WirePartition

from millstream.model.ids import TopicPartition


class Span(NamedTuple):
    """The records of one partition that are not committed yet: from its first to before ``end``."""

    first: int
    end: int


class Handed:
    """Messages in the order they are handed out, and the spans that wait to be committed.

    ``at`` is the next to be handed out; below ``done`` all have been processed. A record is processed when its consumer
    comes back for the next one. Nothing is counted for a consumer that commits nothing.
    """

    def __init__(self, *, is_counted: bool = True) -> None:
        self.is_counted = is_counted
        self.messages: list[Message] = []
        self.at = 0
        self.done = 0
        self.spans: dict[TopicPartition, Span] = {}
        #: Whether a span went to another with its partition, and so cannot be committed together with the others.
        self.has_lost = False
        #: Whether it is open what of the spans is committed: nothing more may be, before the consumer is taken back.
        self.is_unsettled = False
        #: Another one once the messages have changed: whoever walks along them must begin anew.
        self.turn = object()

    def left(self) -> int:
        """How many are still to be handed out."""
        return len(self.messages) - self.at

    def clear(self) -> None:
        """Begin anew."""
        self.turn = object()
        self.messages.clear()
        self.settle()
        self.at = self.done = 0

    def settle(self) -> None:
        """Nothing that was handed out waits to be committed any more."""
        self.spans.clear()
        self.has_lost = self.is_unsettled = False

    def fold(self, upto: int) -> None:
        """Count the messages before this place into their spans, and let go of them."""
        if upto == 0:
            return
        self.turn = object()
        handed = self.messages[:upto]
        del self.messages[:upto]
        self.at -= upto
        self.done = max(0, self.done - upto)
        if not self.is_counted:
            return
        # One pass to each end, in C as far as it goes: this runs once for every record.
        lasts = {(message.topic(), message.partition()): message for message in handed}
        firsts = {(message.topic(), message.partition()): message for message in reversed(handed)}
        for (topic, partition), last in lasts.items():
            tp = TopicPartition(topic, partition)  # type: ignore[arg-type]  # A message that was read has them.
            known = self.spans.get(tp)
            first = known.first if known else firsts[topic, partition].offset()
            self.spans[tp] = Span(first, last.offset() + 1)  # type: ignore[arg-type,operator]

    def offsets(self) -> list[WirePartition]:
        """The spans' ends, as they are committed."""
        return [WirePartition(topic, partition, span.end) for (topic, partition), span in self.spans.items()]

    def drop(self, gone: Container[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Forget what is not handed out yet of some partitions; the first offset of each that had any."""
        self.turn = object()
        dropped: dict[TopicPartition, int] = {}
        kept = []
        for message in self.messages[self.at :]:
            tp = TopicPartition(message.topic(), message.partition())  # type: ignore[arg-type]
            if tp in gone:
                dropped.setdefault(tp, message.offset())  # type: ignore[arg-type]
            else:
                kept.append(message)
        self.messages[self.at :] = kept
        return dropped

    def forget(self, gone: Container[tuple[str, int]]) -> None:
        """Forget all there is of some partitions: another has them now."""
        self.fold(self.at)
        self.drop(gone)
        kept = {tp: span for tp, span in self.spans.items() if tp not in gone}
        self.has_lost = self.has_lost or len(kept) < len(self.spans)
        self.spans = kept
