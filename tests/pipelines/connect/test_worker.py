"""A worker and its connectors over crashes of either: real processes, played by a script that needs no Spark."""

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.connect.workers import ConnectProcess, scripted_worker
from tests.pipelines.processes import children_of, command_of, kill
from tests.pipelines.records import records_of
from tests.system.broker_process import BrokerProcess

SOURCE = "tests.pipelines.connect.scripted.ScriptedSource"
SINK = "tests.pipelines.connect.scripted.ScriptedSink"


def make(api: ConnectProcess, name: str, does: str = "works", **more: Any) -> None:
    config = {"connector.class": SOURCE, "does": does, **more}
    assert api.ask("PUT", f"/connectors/{name}/config", config).status == 201


def processes(api: ConnectProcess) -> list[int]:
    """The processes of the worker's connectors."""
    assert api.process is not None
    return [pid for pid in children_of(api.process.pid) if "scripted_process" in command_of(pid)]


def test_a_crash_loop_in_one_connector_costs_another_not_a_single_batch(broker: BrokerProcess, tmp_path: Path) -> None:
    with scripted_worker(broker.address, tmp_path, "crashes") as api:
        make(api, "healthy")
        api.wait_for_state("healthy", "RUNNING", "RUNNING")
        [pid] = processes(api)
        make(api, "crashing", "dies")
        make(api, "failing", "fails")
        seen = []
        while (falls := api.figure("falls_total", "crashing")) < 8 or api.figure("falls_total", "failing") < 8:
            seen.append((falls, api.figure("batch_number", "healthy")))
            time.sleep(0.01)
        # Between any two crashes it went on, in the same process, and no batch's number was left out.
        progress = [max(batch for fall, batch in seen if fall == crash) for crash in sorted({fall for fall, _ in seen})]
        assert progress == sorted(set(progress)) and len(progress) >= 6
        healthy = api.figures("healthy")
        assert healthy["batches_total"] == healthy["batch_number"]
        assert healthy["starts_total"] == 1 and healthy["falls_total"] == 0
        assert pid in processes(api)
        assert "crashing: dying" in api.said
        assert "crashing: the connector's process ended with code 7 (dying); it is started again in " in api.said
        assert "failing: the database is away; it is started again in " in api.said


def test_a_connector_whose_process_is_killed_goes_on_where_it_was(broker: BrokerProcess, tmp_path: Path) -> None:
    with scripted_worker(broker.address, tmp_path, "kills") as api:
        make(api, "killed")
        api.wait_for(lambda: api.figure("batch_number", "killed") > 3)
        [pid] = processes(api)
        before = api.figure("batch_number", "killed")
        assert kill(pid)
        api.wait_for(lambda: api.figure("starts_total", "killed") == 2)
        api.wait_for_state("killed", "RUNNING", "RUNNING")
        api.wait_for(lambda: api.figure("batch_number", "killed") > before + 3)
        assert "killed: the connector's process was killed by SIGKILL; it is started again in " in api.said


@pytest.mark.parametrize("is_told", [True, False], ids=["told to stop", "killed"])
def test_a_worker_started_again_has_every_connector_as_it_was(
    broker: BrokerProcess, tmp_path: Path, is_told: bool
) -> None:
    with scripted_worker(broker.address, tmp_path, f"again-{is_told}") as api:
        for name, does in (("runs", "works"), ("rests", "works"), ("stops", "works"), ("breaks", "breaks")):
            make(api, name, does, tasks=2)
        make(api, "goes")
        for name in ("runs", "rests", "stops"):
            api.wait_for_state(name, "RUNNING", "RUNNING", "RUNNING")
        api.wait_for(lambda: len(api.get("/connectors/rests/tasks")) == 2)
        assert api.ask("PUT", "/connectors/rests/pause").status == 202
        assert api.ask("PUT", "/connectors/stops/stop").status == 204
        assert api.ask("DELETE", "/connectors/goes").status == 204
        api.wait_for_state("rests", "PAUSED", "PAUSED", "PAUSED")
        api.wait_for_state("stops", "STOPPED")
        api.wait_for_state("breaks", "RUNNING", "FAILED")
        before, configs = api.figure("batch_number", "runs"), api.get("/connectors?expand=info")
        pids = processes(api)
        if is_told:
            assert api.stop() == 0
            last = {each.key: each.value for each in records_of(broker.address, f"again-{is_told}-status")}
            assert b'"UNASSIGNED"' in (last[b"status-connector-runs"] or b"")
            assert b'"PAUSED"' in (last[b"status-connector-rests"] or b"")
        else:
            api.kill_alone()
        deadline_s = time.monotonic() + 30
        while any("scripted_process" in command_of(pid) for pid in pids):  # They notice, and end by themselves.
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        api.start()
        assert sorted(api.get("/connectors")) == ["breaks", "rests", "runs", "stops"]
        api.wait_for_state("runs", "RUNNING", "RUNNING", "RUNNING")
        api.wait_for_state("rests", "PAUSED", "PAUSED", "PAUSED")
        api.wait_for_state("stops", "STOPPED")
        api.wait_for_state("breaks", "RUNNING", "FAILED")
        api.wait_for(lambda: api.figure("batch_number", "runs") > before)
        found = api.get("/connectors?expand=info")
        assert {name: each["info"]["config"] for name, each in found.items()} == {
            name: each["info"]["config"] for name, each in configs.items()
        }
        assert len(processes(api)) == 1


def test_a_connector_that_became_another_makes_nothing_of_the_progress_before(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Though it did while it was stopped, and the worker was another one when it was started again."""

    def generation() -> str:
        [found] = (path.name for path in (tmp_path / "data" / "connectors" / "other").iterdir() if path.is_dir())
        return found

    with scripted_worker(broker.address, tmp_path, "others") as api:
        make(api, "other")
        api.wait_for_state("other", "RUNNING", "RUNNING")
        before = generation()
        assert api.ask("PUT", "/connectors/other/stop").status == 204
        api.wait_for_state("other", "STOPPED")
        changed = {"connector.class": SINK, "does": "works", "topics": "t"}
        assert api.ask("PUT", "/connectors/other/config", changed).status == 200
        assert api.stop() == 0
        api.start()
        assert generation() == before
        assert api.ask("PUT", "/connectors/other/resume").status == 202
        api.wait_for_state("other", "RUNNING", "RUNNING")
        assert int(generation()) > int(before)


def two_folders(tmp_path: Path) -> tuple[Path, Path]:
    """A place for each of two workers."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    return first, second


def test_a_worker_whose_place_another_takes_ends_and_its_connectors_with_it(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    first, second = two_folders(tmp_path)
    with scripted_worker(broker.address, first, "places") as api:
        make(api, "works")
        api.wait_for_state("works", "RUNNING", "RUNNING")
        [pid] = processes(api)
        shutil.copytree(first / "data", second / "data")  # It comes up again, as a machine of that copy would.
        with scripted_worker(broker.address, second, "places") as other:
            with suppress(OSError):  # It may have ended by now.
                late = api.ask("PUT", "/connectors/late/config", {"connector.class": SOURCE, "does": "works"})
                assert late.status == 500 and "lost its place" in late.document["message"]
            assert api.process is not None
            assert api.process.wait(30) != 0
            assert f"--group places: worker {other.url.removeprefix('http://')} works on it" in api.said
            assert "scripted_process" not in command_of(pid)
            other.wait_for_state("works", "RUNNING", "RUNNING")


@pytest.mark.long
def test_a_worker_that_is_not_heard_of_is_replaced_and_ends_when_it_hears_of_it(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    first, second = two_folders(tmp_path)
    with scripted_worker(broker.address, first, "silent") as api:
        make(api, "works")
        api.wait_for_state("works", "RUNNING", "RUNNING")
        [working] = processes(api)
        assert api.process is not None
        stopped = api.process.pid
        os.kill(stopped, signal.SIGSTOP)
        other = scripted_worker(broker.address, second, "silent")
        refusals, deadline_s = 0, time.monotonic() + 60
        try:
            while other.process is None or not other.port:
                assert time.monotonic() < deadline_s
                try:
                    other.start()
                except AssertionError:
                    other.kill()
                    refusals += 1
            assert "scripted_process" not in command_of(working), "what nobody answers for has ended before"
            taken = f"--group silent: worker {api.url.removeprefix('http://')} works on it"
            assert refusals > 0 and taken in other.said
            other.wait_for_state("works", "RUNNING", "RUNNING")
            os.kill(stopped, signal.SIGCONT)
            assert api.process.wait(30) != 0
            assert f"--group silent: worker {other.url.removeprefix('http://')} works on it" in api.said
            other.wait_for_state("works", "RUNNING", "RUNNING")
        finally:
            other.kill()


def test_a_worker_told_twice_ends_at_once(broker: BrokerProcess, tmp_path: Path) -> None:
    with scripted_worker(broker.address, tmp_path, "twice") as api:
        make(api, "hangs", "hangs")
        make(api, "works")
        api.wait_for_state("works", "RUNNING", "RUNNING")
        for pid in processes(api):
            os.kill(pid, signal.SIGSTOP)  # Neither ends in good order.
        assert api.process is not None
        api.process.send_signal(signal.SIGINT)
        api.wait_for(lambda: "once more stops them at once" in api.said)
        assert api.stop(signal.SIGINT) == 0


def test_brokers_that_are_away_hold_nobody_up_and_nothing_is_lost(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker, scripted_worker(broker.address, tmp_path, "away") as api:
        make(api, "works")
        api.wait_for_state("works", "RUNNING", "RUNNING")
        broker.port = int(broker.address.rpartition(":")[2])
        broker.kill()
        before = api.figure("batch_number", "works")
        [pid] = processes(api)
        kill(pid)  # It is started again, for which its offsets must be read.
        api.wait_for(lambda: api.figure("falls_total", "works") >= 1)
        broker.start()
        api.wait_for_state("works", "RUNNING", "RUNNING")
        api.wait_for(lambda: api.figure("batch_number", "works") > before)
        assert api.ask("PUT", "/connectors/works/pause").status == 202
        api.wait_for_state("works", "PAUSED", "PAUSED")


def test_patches_that_come_at_once_are_all_taken(broker: BrokerProcess, tmp_path: Path) -> None:
    patches = {f"key.{number}": str(number) for number in range(8)}
    with scripted_worker(broker.address, tmp_path, "patches") as api, ThreadPoolExecutor(len(patches)) as beside:
        make(api, "patched")
        asked = [beside.submit(api.ask, "PATCH", "/connectors/patched/config", {k: v}) for k, v in patches.items()]
        assert {each.result().status for each in asked} == {200}
        assert patches.items() <= api.get("/connectors/patched/config").items()


def test_many_tasks_with_long_traces_are_told_of(broker: BrokerProcess, tmp_path: Path) -> None:
    """All together they are more than a broker takes at once."""

    def told() -> int:
        last = {each.key: each.value or b"" for each in records_of(broker.address, "verbose-status")}
        tasks = (value for key, value in last.items() if (key or b"").startswith(b"status-task-"))
        return sum(b'"FAILED"' in value and len(value) > 20_000 for value in tasks)

    with scripted_worker(broker.address, tmp_path, "verbose") as api:
        make(api, "verbose", "breaks", failing=80, words=20_000)
        api.wait_for_state("verbose", "RUNNING", *["FAILED"] * 80)
        api.wait_for(lambda: told() == 80)
