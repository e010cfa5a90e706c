"""Two lanes to each leader: replicas that others wait for do not wait for those that copy a long log.

Pure.
"""

from enum import IntEnum

#: A copy goes to the disk after so many bytes. Left to the kernel they would pile up until it stops every writer, and
#: more at once would hold up whoever shares the disk.
PIECE_BYTES = 1024 * 1024
#: The same where there is no time to lose.
HURRIED_PIECE_BYTES = 8 * 1024 * 1024
#: How long a copy rests after each turn of reading. Little by little disturbs less than the same in large portions.
REST_S = 0.001


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
    """How a copy leaves room for others: it is read little by little, and goes to the disk before there is much of it.

    Where there are no others, or where its leader runs away from it, it does not rest.
    """

    def __init__(self) -> None:
        self._copied = 0
        self._lag: int | None = None
        self._is_gaining = True
        #: Whether others are there, at our leader or here; they may be as long as nothing was heard.
        self.has_company = True

    def took(self, count: int) -> bool:
        """So many bytes of its answer were appended; whether all that was copied should go to the disk now."""
        self._copied += count
        return self._copied >= (PIECE_BYTES if self.rests else HURRIED_PIECE_BYTES)

    def flushed(self, lag: int) -> None:
        """What was copied is on the disk, and so many records are still to be."""
        self._is_gaining = self._lag is None or lag < self._lag
        self._copied, self._lag = 0, lag

    @property
    def rests(self) -> bool:
        return self.has_company and self._is_gaining

    @property
    def rest_s(self) -> float:
        """How long to rest after each turn of reading."""
        return REST_S if self.rests else 0.0
