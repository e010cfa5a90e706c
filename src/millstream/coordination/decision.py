"""What passes between a coordinator's machine and the driver that owns its partition.

A machine is pure: it is asked a question or told of an event, and answers with a decision.  It changes its hard state
only when the driver replays records to it, which the driver does in the same turn of the loop, once they are appended.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode


class Question(NamedTuple):
    """A request, who sent it, and the ticket under which its answer is awaited."""

    request: Any
    version: int
    client_id: str
    client_host: str
    ticket: int


class Timer(NamedTuple):
    """An event to be told after a while; None calls it off.  A timer of the same key is replaced."""

    key: Hashable
    after_ms: int | None
    event: Any = None


class Producer(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, in this order: append and replay, set timers; then, once the records are safe, the rest."""

    #: Appended together, all or none, unless they are divisible.
    records: Sequence[CoordinatorRecord] = ()
    timers: Sequence[Timer] = ()
    #: The response for each ticket that is answered now; a ticket that is not named goes on waiting.
    answers: Sequence[tuple[int, Any]] = ()
    #: Work for somebody else; what comes of it is told to the machine as an event.
    orders: Sequence[Any] = ()
    #: Write the records in this producer's transaction: they count only once it commits.
    producer: Producer | None = None
    #: Whether nothing but the records changes anything: when they cannot be appended the question is refused, and that
    #: is all.  Otherwise soft state has moved already, and the machine is loaded again.
    is_pure: bool = False
    #: Whether the records may go in several batches, one after the other: each of them means something by itself, and
    #: whoever decided this would decide on the rest again.
    is_divisible: bool = False
    #: Makes the event that is told to the machine instead of all this when the log refuses the records, as they may be
    #: too large: it undoes what has moved, and nothing need be loaded again.
    if_refused: Callable[[ErrorCode], Any] | None = None


NOTHING = Decision()


def reply(question: Question, response: Any, records: Sequence[CoordinatorRecord] = ()) -> Decision:
    """The most common decision: these records, and this answer to whoever asked."""
    return Decision(records=records, answers=((question.ticket, response),), is_pure=True)


class Origin(NamedTuple):
    """Where a record that is replayed lies, and in whose transaction it was written (-1: in none)."""

    offset: int
    timestamp_ms: int
    producer_id: int = -1


class Machine(Protocol):
    """One partition of an internal topic, as a state machine."""

    def decide(self, event: Any, now_ms: int) -> Decision:
        """A ``Question``, or an event of a timer, an order or the cluster; a refusal is a ``ProtocolError``."""
        ...

    def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
        """Take in a record of the log: the only way hard state changes."""
        ...

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """A producer's transaction has ended in this partition."""
        ...

    def loaded(self, now_ms: int) -> Decision:
        """The whole log has been replayed: timers to set, work left unfinished to take up."""
        ...

    def stands(self, order: Any) -> bool:
        """Whether an order that was given is still wanted, now that it can be carried out."""
        ...
