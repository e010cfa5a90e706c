"""How fast old records are read while somebody waits for an answer now.  Pure."""

#: What one reader of old records is given in a second then: a share of what a machine can do; the rest is theirs.
BYTES_PER_S = 160e6
#: How many times faster than its log grows a reader is kept; else it would be a long time before it has caught up.
LEAD = 2


class HistoryReader:
    """One connection that reads records of closed segments, one stretch after the other."""

    __slots__ = ("_due_s", "_end", "_offset")

    def __init__(self) -> None:
        self._offset = 0
        self._end = 0
        self._due_s = 0.0

    def rest_s(self, size: int, offset: int, end: int, now_s: float, *, is_alone: bool) -> float:
        """How long to rest before so many bytes are given from ``offset`` of a log that can be read up to ``end``.

        Not at all for a reader that is alone, or slower anyway, nor where the log has grown too fast since the last
        stretch: whoever rests there falls behind. What was read without a rest is not made up for later.
        """
        read, grown = offset - self._offset, end - self._end
        self._offset, self._end = offset, end
        if is_alone or read < LEAD * grown:
            self._due_s = now_s
        due_s = max(self._due_s, now_s)
        self._due_s = due_s + size / BYTES_PER_S
        return due_s - now_s
