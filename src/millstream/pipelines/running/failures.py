"""What went wrong, in one line, and whether trying again can mend it."""

import re
import traceback
from typing import NamedTuple

#: By the name of its class: what the same try would only meet again.
FINAL = frozenset(
    {"BatchLost", "BatchOutdated", "DataLost", "IncompatibleCheckpoint", "PipelineError", "RowError", "SettingError"}
    | {"StreamsError"}
    | {"Intolerable", "Misconfigured"}
    | {"ImportError", "ModuleNotFoundError", "PicklingError"}
)
#: What passes by itself: a broker that is away, a network that is down, a JVM that died.
PASSING = frozenset(
    {"BatchFailed", "BrokenPipeError", "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError"}
    | {"ConnectionResetError", "EOFError", "ProtocolError", "Py4JError", "Py4JNetworkError"}
    | {"RetriesExceeded", "StaleMetadata", "TakenOver", "TimeoutError", "Unreachable", "gaierror"}
)
#: Spark's own conditions, by how they begin, and words of its that have none: a checkpoint of another query.
CHECKPOINT_CONDITIONS = (
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_KEY_",
    "STATE_STORE_VALUE_",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STREAMING_QUERY_EVOLUTION_ERROR",
    "STREAMING_STATEFUL_OPERATOR_",
    "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
)
CHECKPOINT_WORDS = ("sources in the checkpoint offsets",)
#: A query, or a record, that can never be taken. What a file says wrong needs no entry: that is final unless it passes.
FINAL_CONDITIONS = ("STATEFUL_PROCESSOR_", "UNSUPPORTED_", "USER_RAISED_EXCEPTION")

#: Errors of ours whose messages need no name before them.
_SENTENCES = FINAL - {"ImportError", "ModuleNotFoundError", "PicklingError"} | {
    "BatchFailed",
    "ConnectError",
    "DataError",
    "TakenOver",
    "Unreachable",
}

#: `package.module.Name: message`, the last line of a Python traceback.
_PYTHON = re.compile(r"^((?:\w+\.)*[A-Z]\w*)(?:: (.*))?$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
_WRAPPER = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)
_TAIL = re.compile(r"(?: SQLSTATE: \w{5})+;?.*\Z", re.DOTALL)


class PipelineError(Exception):
    """A pipeline that cannot be run as it is written: a line that says where, and what would help."""


class Diagnosis(NamedTuple):
    """An error in one line; final where trying again is in vain."""

    message: str
    is_final: bool


def diagnose(error: BaseException, *, file: str = "", checkpoint: str = "", is_building: bool = False) -> Diagnosis:
    """What to tell of an error; ``checkpoint`` is named where that is what does not fit.

    While a pipeline is built, ``file`` speaks, and what it says is wrong is wrong again next time, unless a broker or
    the network was away. While it runs, the world speaks: it is worth another try, unless the error is known to last.
    """
    if isinstance(error, PipelineError):
        return Diagnosis(str(error), True)
    kinds, message = _bottom(error)
    place = _place(error, file) if is_building else ""
    name = "" if kinds[0] in _SENTENCES or kinds[0].endswith("Exception") else kinds[0]
    said = ": ".join(filter(None, (name, _first_line(message)))) or "it ended without a word"
    if checkpoint and (kinds[0] == "IncompatibleCheckpoint" or _is_of_checkpoint(message)):
        said = f"checkpoint={checkpoint}: it is another query's: {said}"
    return Diagnosis(place + said, _is_final(kinds, message, is_building))


def _is_final(kinds: list[str], message: str, otherwise: bool) -> bool:
    """What the most particular of its classes says; else Spark's words; else ``otherwise``."""
    for kind in kinds:
        if kind in FINAL or kind in PASSING:
            return kind in FINAL
    return _is_of_checkpoint(message) or _has_condition(message, FINAL_CONDITIONS) or otherwise


def _is_of_checkpoint(message: str) -> bool:
    return _has_condition(message, CHECKPOINT_CONDITIONS) or any(word in message for word in CHECKPOINT_WORDS)


def _has_condition(message: str, beginnings: tuple[str, ...]) -> bool:
    return any(found[1].startswith(beginnings) for found in _CONDITION.finditer(message))


def _bottom(error: BaseException) -> tuple[list[str], str]:
    """The classes, most particular first, and message of the error at the bottom: the Python one that Spark carries."""
    if isinstance(error, SyntaxError):
        return ["SyntaxError"], error.msg
    text = _WRAPPER.sub("", str(error).split("\n=== Streaming Query ===")[0])
    _, is_carried, trace = text.rpartition("Traceback (most recent call last):")
    carried = list(_PYTHON.finditer(trace)) if is_carried else []
    if carried:
        return [carried[-1][1].rpartition(".")[2]], _TAIL.sub("", trace[carried[-1].end(1) :].removeprefix(": "))
    kinds = [kind.__name__ for kind in type(error).__mro__]
    # A task's failure is told behind which task of which stage it was, and how often: that helps nobody.
    _, is_task, lost = text.partition(": Lost task ")
    conditions = list(_CONDITION.finditer(lost.split("\n")[0])) if is_task else []
    return kinds, _TAIL.sub("", lost[conditions[-1].start() :] if conditions else text)


def _place(error: BaseException, file: str) -> str:
    """`orders.py:12: `, the last line of the file that the error came through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{file}:{lines[-1]}: " if lines else ""


def _first_line(text: str) -> str:
    """Spark adds plans, Python adds lines of code; the first line has the sentence."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    return line.removeprefix("[USER_RAISED_EXCEPTION] ")  # The sentence is ours.
