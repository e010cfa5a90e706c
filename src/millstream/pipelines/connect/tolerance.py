"""What is made of a record that cannot be converted or transformed: tried again, passed over, or the end."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from millstream.model.clock import Clock
from millstream.pipelines.connect.errors import ConnectError
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.settings import (
    ERRORS_LOG_ENABLE,
    ERRORS_LOG_INCLUDE_MESSAGES,
    ERRORS_RETRY_DELAY_MAX_MS,
    ERRORS_RETRY_TIMEOUT,
    ERRORS_TOLERANCE,
)

#: The wait before the first retry; it doubles from then on.
RETRY_DELAY_MIN_MS = 300
_DOUBLINGS_MAX = 30


class Stage(StrEnum):
    """Where on its way a record failed, by Connect's names."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


@dataclass(frozen=True, slots=True)
class Failure:
    """A record's end: the stage, the class that was at work there, and what it raised."""

    stage: Stage
    class_name: str
    error: Exception


class Intolerable(ConnectError):
    """A record failed where ``errors.tolerance`` is ``none``: the connector waits for somebody to help."""

    is_final = True


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a chain may use of the world."""

    clock: Clock
    #: Lets so many seconds pass.
    wait: Callable[[float], None]
    #: Takes a line for the log, and the error it is about.
    report: Callable[[str, Exception], None]


@dataclass(slots=True)
class Counts:
    """What became of records, under the names of Connect's task metrics."""

    total_record_failures: int = 0
    total_record_errors: int = 0
    total_records_skipped: int = 0
    total_retries: int = 0
    total_errors_logged: int = 0


class Tolerance:
    """What a connector's ``errors.*`` say."""

    def __init__(self, config: Config, task: int, around: Surroundings) -> None:
        self._around = around
        self._task_id = f"{config.given.get('name', '')}-{task}"
        self._tolerates = config[ERRORS_TOLERANCE] == "all"
        self._retry_timeout_ms = config[ERRORS_RETRY_TIMEOUT]
        self._retry_delay_max_ms = config[ERRORS_RETRY_DELAY_MAX_MS]
        self._logs = config[ERRORS_LOG_ENABLE]
        self._logs_records = config[ERRORS_LOG_INCLUDE_MESSAGES]
        self.counts = Counts()

    def deadline_ms(self) -> float:
        """Until when something that begins now may be tried again."""
        if self._retry_timeout_ms < 0:
            return float("inf")
        return self._around.clock.monotonic_s() * 1000 + self._retry_timeout_ms

    def wait(self, attempt: int, deadline_ms: float) -> bool:
        """Let time pass after a failed attempt, the first of which is number 1; False when there is none left."""
        self.counts.total_record_failures += 1
        left_ms = deadline_ms - self._around.clock.monotonic_s() * 1000
        if left_ms <= 0:
            return False
        delay_ms = min(RETRY_DELAY_MIN_MS << min(attempt - 1, _DOUBLINGS_MAX), self._retry_delay_max_ms, left_ms)
        self._around.wait(delay_ms / 1000)
        self.counts.total_retries += 1
        return True

    def take(self, failure: Failure, described: Callable[[], str]) -> None:
        """Report the failure; raise ``Intolerable`` when it is the end.  ``described`` says which record it was."""
        self.counts.total_record_errors += 1
        place = f"Executing stage '{failure.stage}' with class '{failure.class_name}'"
        if self._logs:
            which = f", where {described()}" if self._logs_records else ""
            self._around.report(f"Error encountered in task {self._task_id}. {place}{which}.", failure.error)
            self.counts.total_errors_logged += 1
        if not self._tolerates:
            cause = str(failure.error) or type(failure.error).__name__
            raise Intolerable(f"Tolerance exceeded in error handler. {place}: {cause}") from failure.error
        self.counts.total_records_skipped += 1
