"""A connector's life: what its process is to do next, and how that looks from outside.  Decides only.

The process is one; whoever carries a decision out tells what came of it.  A change of mind while a process ends
waits for that end: there are never two of them, for they would write beside each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple

from millstream.pipelines.connect.runtime.states import State, Target


class Phase(Enum):
    """Where the process is."""

    IDLE = auto()  #: There is none, and none is wanted.
    STARTING = auto()  #: There is one, which has not said yet that it runs.
    RUNNING = auto()
    ENDING = auto()  #: It was told to end.
    WAITING = auto()  #: It fell, and is started again after a while.
    FAILED = auto()  #: It fell, and nothing but a new config or somebody's word starts it again.


#: phase -> the phases it may enter.  Anything else is our bug.
TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.IDLE: frozenset({Phase.STARTING}),
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.ENDING, Phase.WAITING, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.ENDING, Phase.WAITING, Phase.FAILED}),
    Phase.ENDING: frozenset({Phase.IDLE, Phase.STARTING}),
    Phase.WAITING: frozenset({Phase.IDLE, Phase.STARTING}),
    Phase.FAILED: frozenset({Phase.IDLE, Phase.STARTING}),
}
HAS_PROCESS = frozenset({Phase.STARTING, Phase.RUNNING, Phase.ENDING})


class Order(Enum):
    """What is to be done now."""

    START = auto()
    LET_GO = auto()  #: Have the process end behind the batch under way.
    KILL = auto()  #: Have it end at once; nothing is under way.
    WAIT = auto()  #: Call ``waited`` once the time of the back-off has passed.


class Fall(NamedTuple):
    """Why a process ended that nobody told to."""

    message: str
    trace: str
    is_final: bool


class View(NamedTuple):
    """How a connector and its tasks look from outside; a trace for whoever is not well."""

    connector: State
    tasks: State
    has_tasks: bool
    connector_trace: str = ""
    tasks_trace: str = ""


@dataclass(frozen=True)
class Life:
    """One connector's.  Every method gives the life after it, and what to do."""

    target: Target = Target.STARTED
    phase: Phase = Phase.IDLE
    #: Whether a process was there before this one.
    is_again: bool = False
    #: Why the last process ended, until another one runs; and whether it had run before it fell.
    fall: Fall | None = None
    fell_running: bool = False

    def wanted(self, target: Target) -> "tuple[Life, Order | None]":
        """Something else is wanted, or the same again."""
        life = replace(self, target=target)
        if target is not Target.STARTED:
            return life._end()
        return life._start(is_again=False) if self.phase is Phase.IDLE else (life, None)

    def anew(self) -> "tuple[Life, Order | None]":
        """The process is to be another: its config has changed, or somebody wants it to be started again."""
        if self.target is not Target.STARTED:
            return self, None
        return self._end() if self.phase in HAS_PROCESS else self._start(is_again=self.phase is not Phase.IDLE)

    def running(self) -> "Life":
        """The process says that it runs."""
        if self.phase is not Phase.STARTING:
            return self  # It says so again, or while it ends.
        return replace(self._to(Phase.RUNNING), fall=None)

    def ended(self, fall: Fall) -> "tuple[Life, Order | None]":
        """The process has ended; ``fall`` says why, where nobody had told it to."""
        if self.phase is Phase.ENDING:
            life = replace(self._to(Phase.IDLE), fall=None)
            return life._start(is_again=True) if self.target is Target.STARTED else (life, None)
        life = replace(self, fall=fall, fell_running=self.phase is Phase.RUNNING)
        return (life._to(Phase.FAILED), None) if fall.is_final else (life._to(Phase.WAITING), Order.WAIT)

    def waited(self) -> "tuple[Life, Order | None]":
        """The time of the back-off has passed."""
        return self._start(is_again=True) if self.phase is Phase.WAITING else (self, None)

    @property
    def view(self) -> View:
        """How it looks."""
        if self.target is not Target.STARTED and self.phase is Phase.IDLE:
            state = State(self.target.value)
            return View(state, state, has_tasks=self.target is not Target.STOPPED)
        tasks = _TASKS[self.phase]
        if (self.phase is Phase.STARTING and self.is_again) or (
            self.phase is Phase.ENDING and self.target is Target.STARTED
        ):
            tasks = State.RESTARTING
        # What a connector's tasks could not do is theirs; what it could not even begin is its own.
        connector = State.RUNNING if self.fall and self.fell_running else tasks
        trace = self.fall.trace or self.fall.message if self.fall else ""
        return View(connector, tasks, True, "" if connector is State.RUNNING else trace, trace)

    def _start(self, *, is_again: bool) -> "tuple[Life, Order | None]":
        return replace(self._to(Phase.STARTING), is_again=is_again), Order.START

    def _end(self) -> "tuple[Life, Order | None]":
        """Without a process; where there is one, once it has ended."""
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            return self._to(Phase.ENDING), Order.LET_GO if self.phase is Phase.RUNNING else Order.KILL
        if self.phase in (Phase.WAITING, Phase.FAILED):
            return replace(self._to(Phase.IDLE), fall=None), None
        return self, None

    def _to(self, phase: Phase) -> "Life":
        assert phase in TRANSITIONS[self.phase], f"{self.phase} -> {phase}"
        return replace(self, phase=phase)


_TASKS = {
    Phase.IDLE: State.UNASSIGNED,
    Phase.STARTING: State.UNASSIGNED,
    Phase.RUNNING: State.RUNNING,
    Phase.ENDING: State.RUNNING,
    Phase.WAITING: State.RESTARTING,
    Phase.FAILED: State.FAILED,
}
