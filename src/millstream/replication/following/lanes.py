"""Two lanes to each leader: replicas that others wait for do not wait for those that copy a long log.

Pure.
"""

from enum import IntEnum

#: A copy goes to the disk after so many bytes. Left to the kernel they would pile up until it stops every writer.
PIECE_BYTES = 8 * 1024 * 1024
#: After each answer a copy rests for so many times as long as the answer took; one that took longer was held back.
REST = 2
REST_MS_MAX = 20


class Lane(IntEnum):
    """How a partition is fetched."""

    #: Its leader counts on us, or soon will: whoever writes with acks=all waits for this lane.
    KEEPING_UP = 0
    #: Our log ends before the high watermark, so nobody waits for us; it is copied at a pace that others can bear.
    CATCHING_UP = 1


def lane_of(end_offset: int, leader_watermark: int) -> Lane:
    """The lane of a partition whose log ends here, where the leader's high watermark is that."""
    return Lane.CATCHING_UP if leader_watermark > end_offset else Lane.KEEPING_UP


class Pace:
    """How a copy leaves room for others: it rests after each answer, and goes to the disk before there is much of it.

    Where its leader runs away from it, it does not rest.
    """

    def __init__(self) -> None:
        self._asked_ms = 0
        self._copied = 0
        self._lag: int | None = None
        self._rests = True

    def asked(self, now_ms: int) -> None:
        """A fetch leaves."""
        self._asked_ms = now_ms

    def took(self, count: int) -> bool:
        """So many bytes of its answer were appended; whether all that was copied should go to the disk now."""
        self._copied += count
        return self._copied >= PIECE_BYTES

    def flushed(self, lag: int) -> None:
        """What was copied is on the disk, and so many records are still to be."""
        self._rests = self._lag is None or lag < self._lag
        self._copied, self._lag = 0, lag

    def next_ms(self, now_ms: int) -> int:
        """When the next fetch may leave."""
        return now_ms + min(REST * (now_ms - self._asked_ms), REST_MS_MAX) if self._rests else now_ms
