"""Where a task asks whether it is alone: how many tasks a stage has Spark tells its driver, and no task.

The driver's process keeps a desk. Every worker process has a line to it, and says on each what it wants in a line of
JSON. A task that gets no answer, or none in time, is not told that it is alone; nothing fails for that.
"""

import hmac
import json
import os
import secrets
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from pyspark import SparkContext
from pyspark.sql import SparkSession

from millstream.model.clock import Clock, SystemClock
from millstream.pipelines.spark.java import compiled

#: Spark passes the settings of a session whose names begin like this to every task as local properties, whichever
#: thread its query was started by.
PROPERTY = "spark.millstream.stages"
#: What a task waits for an answer, which takes a millisecond or two as a rule.
ANSWER_S = 0.05
#: What a worker waits for a line, and for how long it does not try again when it got none, or no answer.
CONNECT_S = 0.1
UNREACHED_S = 10.0
UNANSWERED_S = 1.0
#: Spark tells of a stage a moment after its tasks have begun. It is looked for so often, with so much time between.
LOOKS = 8
LOOK_S = 0.0005
#: Notes are kept for so many names.
NOTES_MAX = 64
#: Says of a stage all that is asked at one go.
_TELLER_NAME = "millstream.Teller"
_TELLER = """
package millstream;

import org.apache.spark.SparkStageInfo;
import org.apache.spark.api.java.JavaSparkStatusTracker;

public class Teller {
    private final JavaSparkStatusTracker tracker;

    public Teller(JavaSparkStatusTracker tracker) {
        this.tracker = tracker;
    }

    /** Its tasks and its last attempt; null where nothing is known of it yet. */
    public String of(int stage) {
        SparkStageInfo found = tracker.getStageInfo(stage);
        return found == null ? null : found.numTasks() + " " + found.currentAttemptId();
    }
}
"""
#: A line longer than this is none of ours.
_LINE_BYTES_MAX = 64 * 1024
_RECEIVE_BYTES = 4096


class Stage(NamedTuple):
    """A stage as its last attempt has it: a later one runs only the tasks that the first one lost."""

    tasks: int
    attempt: int

    @property
    def is_lone(self) -> bool:
        """Whether all of it is one task, however often that is tried."""
        return self.tasks == 1 and self.attempt == 0


class Desk:
    """What is known at the desk. ``stage_of`` is asked for a stage of an application, and gives None where it knows of
    none: another that this process runs later has stages of the same numbers.
    """

    def __init__(self, stage_of: Callable[[str, int], Stage | None]) -> None:
        self._stage_of = stage_of
        self._notes: dict[str, Any] = {}

    def is_lone(self, application: str, stage: int) -> bool:
        """Whether all of the stage is one task."""
        found = self._stage_of(application, stage)
        return found is not None and found.is_lone

    def leave(self, name: str, note: Any) -> None:
        """Keep a note for the next task of this name, in place of any other."""
        self._notes.pop(name, None)
        self._notes[name] = note
        if len(self._notes) > NOTES_MAX:
            del self._notes[next(iter(self._notes))]

    def note(self, name: str) -> Any:
        """What was left for a task of this name; to one task only, whatever becomes of that task and of the answer."""
        return self._notes.pop(name, None)

    def served(self, line: bytes) -> Iterator[bytes]:
        """What is answered to a line; ValueError, KeyError or TypeError where it is none of ours.

        A task is given its note at once, and Spark is asked then.
        """
        told = json.loads(line)
        if "note" in told:
            self.leave(told["name"], told["note"])
            return
        yield json.dumps(self.note(told["name"])).encode() + b"\n"
        yield json.dumps(self.is_lone(told["application"], told["stage"])).encode() + b"\n"


class DeskServer:
    """A desk that can be reached: one thread, which ends with its process. OSError where ``host`` cannot be bound."""

    def __init__(self, desk: Desk, host: str) -> None:
        self._desk = desk
        self._token = secrets.token_hex(16)
        self._listener = socket.create_server((host, 0))
        self._listener.setblocking(False)
        #: With each connection its caller; with the listener nobody.
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, name="millstream-stages", daemon=True).start()

    def address(self, host: str, application: str) -> str:
        """What the tasks of an application are told: the word that lets them in, where it is, and what they are of."""
        return f"{self._token}@{host}:{self.port}/{application}"

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if key.data is None:
                    self._accept()
                    continue
                try:
                    self._hear(connection, key.data)
                except (OSError, ValueError, KeyError, TypeError):
                    self._selector.unregister(connection)
                    connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, _Caller())

    def _hear(self, connection: socket.socket, caller: "_Caller") -> None:
        received = connection.recv(_RECEIVE_BYTES)
        if not received:
            raise ConnectionResetError
        caller.received += received
        *lines, caller.received = caller.received.split(b"\n")
        if len(caller.received) > _LINE_BYTES_MAX:
            raise ValueError("a line without an end")
        for line in lines:
            if not caller.is_known:
                if not hmac.compare_digest(line, self._token.encode()):
                    raise ValueError("a stranger")
                caller.is_known = True
            else:
                for answer in self._desk.served(line):
                    connection.sendall(answer)  # A few bytes, to one who waits for them.


class _Caller:
    """One end of a connection: the beginning of its next line, and whether it has said the word."""

    def __init__(self) -> None:
        self.received = b""
        self.is_known = False


class DeskLine:
    """A worker's line to the desk; nothing that goes wrong on it is raised."""

    def __init__(self, address: str, clock: Clock) -> None:
        self._token, _, rest = address.partition("@")
        place, _, self._application = rest.partition("/")
        host, _, port = place.rpartition(":")
        self._place = host, int(port)
        self._clock = clock
        self._socket: socket.socket | None = None
        self._not_before_s = 0.0
        self._received = b""
        #: How many answers are to come.
        self._owed = 0
        self._is_lone = False

    def ask(self, stage: int, name: str) -> None:
        """Begin to ask for a note that was left under this name, and whether the stage is one task."""
        while self._owed:  # By a task that did not wait for them.
            self._answer()
        self._is_lone = False
        if self._sent({"application": self._application, "stage": stage, "name": name}):
            self._owed = 2

    def note(self) -> Any:
        """What was left for the task that asked last; None where that is nothing."""
        return self._answer() if self._owed == 2 else None

    def is_lone(self) -> bool:
        """Whether it is alone, as far as is known."""
        while self._owed:
            self._is_lone = self._answer() is True
        return self._is_lone

    def _answer(self) -> Any:
        """The next answer; a line on which none comes is given up, for it would come too late."""
        try:
            while b"\n" not in self._received:
                if self._socket is None or not (more := self._socket.recv(_RECEIVE_BYTES)):
                    raise ConnectionResetError
                self._received += more
            line, self._received = self._received.split(b"\n", 1)
            self._owed -= 1
            return json.loads(line)
        except (OSError, ValueError):
            self.close()
            self._not_before_s = self._clock.monotonic_s() + UNANSWERED_S
            return None

    def leave(self, name: str, note: Any) -> None:
        """Leave a note for the next task that asks under this name; it may get lost."""
        self._sent({"name": name, "note": note})

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received, self._owed = b"", 0

    def _sent(self, told: dict[str, Any]) -> bool:
        try:
            if self._socket is None:
                self._socket = self._connected()
            self._socket.sendall(json.dumps(told).encode() + b"\n")
        except OSError:
            self.close()
            return False
        return True

    def _connected(self) -> socket.socket:
        now_s = self._clock.monotonic_s()
        if now_s < self._not_before_s:
            raise ConnectionRefusedError
        self._not_before_s = now_s + UNREACHED_S
        connection = socket.create_connection(self._place, CONNECT_S)
        self._not_before_s = 0.0
        connection.settimeout(ANSWER_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(self._token.encode() + b"\n")
        return connection


#: By process and address: a forked process is another one, whatever it found in its memory.
_LINES: dict[tuple[int, str], DeskLine] = {}


def desk_line(address: str) -> DeskLine:
    """This process's own line to the desk there."""
    key = os.getpid(), address
    if key not in _LINES:
        _LINES[key] = DeskLine(address, SystemClock())
    return _LINES[key]


class SparkStages:
    """The stages of the application that Spark runs in this process, whichever that is.

    ``teller_of`` makes an object in Java that has ``of``: how many tasks a stage has, and which attempt at it is the
    last, in one answer. A question took up to a millisecond of a micro-batch of 22, whose task may wait meanwhile.
    """

    def __init__(
        self,
        teller_of: Callable[[SparkContext], Any] | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._teller_of = teller_of or _teller_of
        self._pause = pause or threading.Event().wait
        self._context: SparkContext | None = None
        self._application = ""
        self._teller: Any = None

    def begin(self, context: SparkContext) -> None:
        """An application has begun to run."""
        if context is not self._context:
            self._teller = self._teller_of(context)
            self._context, self._application = context, context.applicationId

    def stage(self, application: str, number: int) -> Stage | None:
        """A stage, if it is one of the application that runs now."""
        with suppress(Exception):  # Spark is about to end, or is gone.
            if application != self._application or self._context is not SparkContext._active_spark_context:
                return None
            for _ in range(LOOKS):
                if (told := self._teller.of(number)) is not None:
                    return Stage(*map(int, told.split()))
                self._pause(LOOK_S)
        return None


def _teller_of(context: SparkContext) -> Any:
    arguments = context._gateway.new_array(context._jvm.Object, 1)  # type: ignore[union-attr]
    arguments[0] = context._jsc.statusTracker()
    return compiled(context, _TELLER).loadClass(_TELLER_NAME).getConstructors()[0].newInstance(arguments)


_STAGES = SparkStages()
#: One for each address that they are bound to; the tasks of every session of this process go to the same.
_SERVERS: dict[str, DeskServer] = {}


def open_desk(spark: SparkSession) -> None:
    """Let the tasks of this session's queries find the desk; where none can be opened, they do without."""
    context = spark.sparkContext
    conf = context.getConf()
    host = bound = "127.0.0.1"
    if not (context.master or "").startswith("local"):
        host = conf.get("spark.driver.host") or host
        bound = conf.get("spark.driver.bindAddress") or host
    with suppress(Exception):
        _STAGES.begin(context)
        if bound not in _SERVERS:
            _SERVERS[bound] = DeskServer(Desk(_STAGES.stage), bound)
        spark.conf.set(PROPERTY, _SERVERS[bound].address(host, context.applicationId))
