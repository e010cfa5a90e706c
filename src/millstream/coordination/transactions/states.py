"""The states of a transactional id, and which may follow which."""

from enum import IntEnum


class State(IntEnum):
    """By Kafka's numbers, which stand in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    #: The id is forgotten: in the log a tombstone.
    DEAD = 6
    #: A producer was replaced or took too long, and its transaction is about to be aborted: passed through only.
    PREPARE_EPOCH_FENCE = 7


#: As DescribeTransactions and ListTransactions show them.
NAMES = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
    State.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

#: The outcome is decided, and not yet told to every partition.
ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
ENDED = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
#: No transaction is under way: one may begin, or the id be forgotten.
IDLE = frozenset({State.EMPTY, *ENDED})

#: From an idle state a transaction begins, or one to which nothing was ever added is aborted.
_FROM_IDLE = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})

#: state -> the states it may enter.  Anything else is our bug, never the client's.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.EMPTY: _FROM_IDLE,
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _FROM_IDLE,
    State.COMPLETE_ABORT: _FROM_IDLE,
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
}
