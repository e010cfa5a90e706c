"""What may be wanted of a connector, and how it may stand, in Connect's words."""

from enum import StrEnum


class Target(StrEnum):
    """What is wanted of a connector, as its config's topic has it."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(StrEnum):
    """How a connector, or a task of it, stands."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


#: What a new connector may be asked to be, as its creator says it.
INITIAL = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}
