"""A pipeline's process kept running: real processes, which speak as a pipeline does and need no Spark for it."""

import asyncio
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from millstream.metrics.prometheus import exposition
from millstream.model.clock import SystemClock
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.restarts import Restarts
from millstream.pipelines.running.supervisor import Supervisor, environment

#: Each life of the process runs the next of these; it begins with what all of them need.
BEGINNING = """
import os, sys, time
from millstream.pipelines.running.reports import *
tell = lambda report: os.write(int(sys.argv[2]), encode(report))
batch = lambda number: tell(Batch("q", number, 10, 5, 1, 20, 0, 0))
"""
WORKS = "tell(Started(('q',))); batch(0)\n"
DIES = "os.kill(os.getpid(), 9)\n"
UNTIL_TOLD = "sys.stdin.read(); batch(1)\n"
TIMEOUT_S = 30.0


class Told:
    """A display that remembers."""

    every_s = 0.01

    def __init__(self) -> None:
        self.said: list[str] = []
        self.errors: list[str] = []
        self.shown: list[str] = []
        self.heard = asyncio.Event()

    def show(self, progress: Progress, passed_s: float) -> None:
        self.shown += progress.lines(passed_s)
        self.heard.set()

    def say(self, line: str) -> None:
        self.said.append(line)
        self.heard.set()

    def error(self, line: str) -> None:
        self.errors.append(line)
        self.heard.set()

    async def until(self, words: str) -> None:
        """Once something with these words was said."""
        async with asyncio.timeout(TIMEOUT_S):
            while not any(words in line for line in (*self.said, *self.errors, *self.shown)):
                self.heard.clear()
                await self.heard.wait()


def supervisor_of(folder: Path, lives: list[str], falls_max: int | None = None) -> tuple[Supervisor, Told]:
    """A supervisor whose process lives these lives, one after the other."""
    for number, life in enumerate(lives):
        (folder / f"{number}.py").write_text(BEGINNING + life)
    first = "import os, sys; me = sorted(f for f in os.listdir('.') if f.endswith('.py'))[0]; text = open(me).read()"
    command = (sys.executable, "-c", f"{first}; os.remove(me); exec(text)")
    job = Job(file=str(folder / "p.py"), name="p", checkpoint=str(folder), bootstrap="b:1")
    told = Told()
    restarts = Restarts(first_s=0.01, falls_max=falls_max)
    return Supervisor(job, told, restarts, SystemClock(), lambda: 0.5, command=command), told


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_pipeline_that_ends_by_itself_is_done(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS])
        await supervisor.run()
        assert told.said == ["running q"]
        assert supervisor.progress.whole.rows_in == 10

    asyncio.run(scenario())


def test_one_that_is_killed_is_started_again_and_its_figures_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS + DIES, "raise ValueError('odd')", WORKS])
        await supervisor.run()
        assert told.said == [
            "running q",
            "the pipeline's process was killed by SIGKILL; it is started again in 0.0 s",
            "the pipeline's process ended with code 1 (ValueError: odd); it is started again in 0.0 s",
            "running q",
        ]
        assert told.errors[-1] == "ValueError: odd"
        assert supervisor.progress.queries["q"].rows_out == 10
        assert supervisor.metrics.restarts.value == 2

    asyncio.run(scenario())


def test_one_that_is_down_says_when_it_is_tried_again_and_knows_no_lag(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS + DIES])
        supervisor._restarts.first_s = 600.0
        running = asyncio.create_task(supervisor.run())
        await told.until("p  down, next try in 4")
        page = exposition(supervisor.metrics.metrics)
        assert 'millstream_pipeline_up{pipeline="p"} 0' in page
        assert 'millstream_pipeline_rows_in_total{pipeline="p",query="q"} 10' in page
        assert "lag_records" not in page
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


def test_one_whose_source_does_not_answer_knows_no_lag_until_its_next_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, ["tell(Unseen('q'))\n" + WORKS + "tell(Unseen('q'))\n" + UNTIL_TOLD])
        running = asyncio.create_task(supervisor.run())
        await told.until("lag unknown")
        page = exposition(supervisor.metrics.metrics)
        assert "lag_records" not in page
        assert 'millstream_pipeline_up{pipeline="p"} 1' in page
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)
        assert 'lag_records{pipeline="p",query="q"} 1' in exposition(supervisor.metrics.metrics)

    asyncio.run(scenario())


def test_one_that_comes_back_is_being_started_and_then_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [DIES, "sys.stdin.read()", ""])
        running = asyncio.create_task(supervisor.run())
        await told.until("p  down, being started again")
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)

        supervisor, told = supervisor_of(tmp_path, [WORKS + DIES, WORKS + UNTIL_TOLD])
        running = asyncio.create_task(supervisor.run())
        await told.until("started again in")
        told.shown.clear()
        await told.until("lag 1")
        assert supervisor.progress.down == {}
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


def test_an_error_that_lasts_ends_it_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, ["tell(Failed('no topic', True)); sys.exit(1)", WORKS])
        with pytest.raises(PipelineError, match=r"^no topic$"):
            await supervisor.run()
        assert told.said == []

    asyncio.run(scenario())


def test_falls_beyond_what_is_allowed_end_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, _ = supervisor_of(tmp_path, ["tell(Failed('away', False)); sys.exit(1)"] * 3, falls_max=1)
        with pytest.raises(PipelineError, match="away; it fell 2 times in a row, which is enough"):
            await supervisor.run()

    asyncio.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_stop_it_waits_for_the_batch_under_way(tmp_path: Path, number: signal.Signals) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS + UNTIL_TOLD, WORKS])
        running = asyncio.create_task(supervisor.run())
        await told.until("running q")
        os.kill(os.getpid(), number)
        await running
        assert supervisor.progress.whole.batches == 2

    asyncio.run(scenario())
    assert len(list(tmp_path.glob("*.py"))) == 1, "it was started again"


def test_told_twice_it_ends_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS + "time.sleep(600)"])
        running = asyncio.create_task(supervisor.run())
        await told.until("running q")
        supervisor.stop()
        await told.until("stopping behind the micro-batch")
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


def test_told_to_stop_while_it_waits_or_builds_it_ends_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS + DIES])
        supervisor._restarts.first_s = 600.0
        running = asyncio.create_task(supervisor.run())
        await told.until("started again")
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)

        supervisor, told = supervisor_of(tmp_path, ["sys.stderr.write('building\\n'); time.sleep(600)"])
        running = asyncio.create_task(supervisor.run())
        await told.until("building")
        supervisor.stop()
        await asyncio.wait_for(running, TIMEOUT_S)

    asyncio.run(scenario())


def test_nothing_that_it_started_outlives_it(tmp_path: Path) -> None:
    child = "import subprocess; open('child', 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"

    async def scenario() -> None:
        await supervisor_of(tmp_path, [child + WORKS])[0].run()

    asyncio.run(scenario())
    state = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    deadline_s = time.monotonic() + TIMEOUT_S
    while state.exists() and " Z " not in state.read_text():
        assert time.monotonic() < deadline_s, "it lives"
        time.sleep(0.01)


def test_figures_are_shown_and_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        supervisor, told = supervisor_of(tmp_path, [WORKS + UNTIL_TOLD])
        running = asyncio.create_task(supervisor.run(("127.0.0.1", 0)))
        await told.until("running q")
        address = next(line for line in told.said if line.startswith("metrics ")).split()[1]
        await told.until("rows/s in")
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{address}/metrics").read().decode())
        assert 'millstream_pipeline_rows_in_total{pipeline="p",query="q"} 10' in text
        assert 'millstream_pipeline_up{pipeline="p"} 1' in text
        ready = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{address}/health/ready").status)
        assert ready == 200
        supervisor.stop()
        await running

    asyncio.run(scenario())


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        with pytest.raises(PipelineError, match=f"--metrics-port {port}: .*in use"):
            await supervisor_of(tmp_path, [WORKS])[0].run(("127.0.0.1", port))
        taken.close()

    asyncio.run(scenario())


def test_the_file_s_neighbours_can_be_imported_and_a_logging_of_one_s_own_stays() -> None:
    job = Job(file="/pipelines/p.py", name="p", checkpoint="", bootstrap="")
    found = environment({"PYTHONPATH": "/x", "LOG4J_CONFIGURATION_FILE": "/mine"}, job, "warn")
    assert found["PYTHONPATH"] == "/pipelines:/x"
    assert found["LOG4J_CONFIGURATION_FILE"] == "/mine"
    assert environment({}, job, "warn")["LOG4J_CONFIGURATION_FILE"].endswith("log4j2.properties")
