"""What a partition tells those who read it from here: followers, and consumers that know epochs."""

from typing import NamedTuple, Protocol


class Divergence(NamedTuple):
    """The follower's log left the leader's at the end of this epoch."""

    epoch: int
    end_offset: int


class Watcher(Protocol):
    """A follower's fetch session, as far as one partition concerns it."""

    def grew(self) -> None:
        """There are records that the follower does not have."""
        ...

    def changed(self) -> None:
        """Something else is to be told, which can wait."""
        ...
