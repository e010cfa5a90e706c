"""The desk at which tasks ask whether they are alone: real sockets, and stages that need no Spark."""

import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pyspark import SparkContext

from millstream.model.clock import SystemClock
from millstream.pipelines.spark.stages import (
    LOOKS,
    NOTES_MAX,
    UNANSWERED_S,
    Desk,
    DeskLine,
    DeskServer,
    SparkStages,
    Stage,
)

STAGES = {1: Stage(1, 0), 2: Stage(2, 0), 3: Stage(1, 1), 4: Stage(1, 0)}
HERE = "127.0.0.1"
APPLICATION = "local-1"


def _stage_of(application: str, number: int) -> Stage | None:
    return STAGES.get(number) if application == APPLICATION else None


@pytest.fixture
def server() -> DeskServer:
    return DeskServer(Desk(_stage_of), HERE)


@pytest.fixture
def line(server: DeskServer) -> Iterator[DeskLine]:
    made = DeskLine(server.address(HERE, APPLICATION), SystemClock())
    yield made
    made.close()


def _asked(line: DeskLine, stage: int, name: str = "q") -> tuple[Any, bool]:
    """The note, and whether it is lone."""
    line.ask(stage, name)
    return line.note(), line.is_lone()


def test_a_stage_is_lone_that_was_one_task_from_its_first_attempt_on(line: DeskLine) -> None:
    """A later attempt has only those tasks that are to be run again."""
    assert [_asked(line, stage)[1] for stage in (1, 2, 3, 99, 1)] == [True, False, False, False, True]
    assert line.is_lone(), "and once more"


def test_a_stage_of_an_application_that_is_gone_is_not_taken_for_another_of_its_number(server: DeskServer) -> None:
    """A task that outlived its session would take itself for a lone one, and its batch for done."""
    late = DeskLine(server.address(HERE, "local-0"), SystemClock())
    assert _asked(late, 1) == (None, False)
    late.close()


def test_a_note_is_for_one_task_of_its_name_in_whatever_process(server: DeskServer, line: DeskLine) -> None:
    other = DeskLine(server.address(HERE, APPLICATION), SystemClock())
    line.leave("q", [7, 3, 12])
    line.leave("q", [7, 4, 13])
    line.ask(1, "q-0")
    assert line.is_lone(), "by now it was heard"
    assert _asked(other, 1, "another") == (None, True)
    assert _asked(other, 1) == ([7, 4, 13], True)
    assert _asked(line, 1) == (None, True), "it was given away"
    other.close()


def test_notes_are_kept_for_so_many_names_and_no_more() -> None:
    desk = Desk(_stage_of)
    for number in range(NOTES_MAX + 1):
        desk.leave(f"q{number}", number)
    assert desk.note("q0") is None
    assert desk.note("q1") == 1


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another(line: DeskLine) -> None:
    line.ask(1, "q")
    line.ask(2, "q")
    assert not line.is_lone()
    line.ask(1, "q")
    assert line.note() is None
    assert _asked(line, 2) == (None, False)
    assert line.note() is None, "nothing was asked"


def test_without_a_desk_nobody_is_told_to_be_alone() -> None:
    with socket.create_server((HERE, 0)) as gone:
        port = gone.getsockname()[1]
    line = DeskLine(f"word@{HERE}:{port}/{APPLICATION}", SystemClock())
    assert _asked(line, 1) == (None, False)
    line.leave("q", [1])
    assert _asked(line, 1) == (None, False)


class _Clock(SystemClock):
    """A clock that stands still."""

    now_s = 1_000.0

    def monotonic_s(self) -> float:
        return self.now_s


def test_a_desk_that_does_not_answer_is_left_alone_for_a_while() -> None:
    with socket.create_server((HERE, 0)) as silent:
        clock = _Clock()
        line = DeskLine(f"word@{HERE}:{silent.getsockname()[1]}/{APPLICATION}", clock)
        assert _asked(line, 1) == (None, False)
        silent.accept()[0].close()
        silent.settimeout(0)
        for passed_s in (0.0, UNANSWERED_S / 2):
            clock.now_s += passed_s
            assert _asked(line, 1) == (None, False)
            with pytest.raises(BlockingIOError):
                silent.accept()
        clock.now_s += UNANSWERED_S
        line.ask(1, "q")
        silent.settimeout(10)
        silent.accept()[0].close()
        line.close()


@pytest.mark.parametrize("said", [b'wrong\n{"stage": 1, "name": "q"}\n', b'{"stage": 1, "name": "q"}\n', b"x" * 80_000])
def test_strangers_get_no_answer(server: DeskServer, line: DeskLine, said: bytes) -> None:
    with socket.create_connection((HERE, server.port), 5) as stranger:
        try:
            stranger.sendall(said)
            assert stranger.recv(100) == b""
        except ConnectionError:
            pass  # It has hung up while we were speaking.
    assert _asked(line, 1)[1]


def test_nonsense_ends_its_own_line_only(server: DeskServer, line: DeskLine) -> None:
    token = server.address(HERE, APPLICATION).partition("@")[0].encode()
    for nonsense in (b"no json", b"[]", b"{}", b'{"stage": 1}'):
        with socket.create_connection((HERE, server.port), 5) as other:
            other.sendall(token + b"\n" + nonsense + b"\n")
            assert other.recv(100) == b""
    assert _asked(line, 1)[1]


def test_a_line_that_broke_is_made_anew(server: DeskServer, line: DeskLine) -> None:
    assert _asked(line, 1)[1]
    line.close()
    assert _asked(line, 1)[1]


class _Context:
    """Spark's context, and what tells of its stages: nothing until it was asked for a while."""

    applicationId = APPLICATION  # noqa: N815

    def __init__(self, unknown_for: int = 0) -> None:
        self._unknown_for = unknown_for

    def of(self, number: int) -> str | None:
        self._unknown_for -= 1
        return "1 0" if self._unknown_for < 0 else None


def _stages(context: _Context, monkeypatch: pytest.MonkeyPatch, pauses: list[float] | None = None) -> SparkStages:
    """The stages of an application that has begun to run."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    stages = SparkStages(lambda context: context, None if pauses is None else pauses.append)
    stages.begin(cast("SparkContext", context))
    return stages


@pytest.mark.parametrize(("unknown_for", "found"), [(0, Stage(1, 0)), (3, Stage(1, 0)), (LOOKS, None)])
def test_a_stage_that_spark_has_not_told_of_yet_is_looked_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, unknown_for: int, found: Stage | None
) -> None:
    pauses: list[float] = []
    assert _stages(_Context(unknown_for), monkeypatch, pauses).stage(APPLICATION, 5) == found
    assert len(pauses) == unknown_for


def test_only_of_the_application_that_runs_a_stage_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    context = _Context()
    stages = _stages(context, monkeypatch)
    assert SparkStages().stage(APPLICATION, 5) is None, "none has begun"
    for running, known in ((None, False), (context, True), (_Context(), False)):
        monkeypatch.setattr(SparkContext, "_active_spark_context", running)
        assert stages.stage("local-0", 5) is None
        assert (stages.stage(APPLICATION, 5) is not None) == known
