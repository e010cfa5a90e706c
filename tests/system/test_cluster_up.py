"""``millstream cluster up``: a whole cluster by one command."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.cli.cluster.health import NO_CONTROLLER
from millstream.cli.cluster.held import holders
from millstream.storage.meta import MetaProperties
from tests.system.command import Millstream

TIMEOUT_S = 60.0


class Up:
    """The running command, and what it printed."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "millstream", "cluster", "up", "--data", str(data), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.complaints: list[str] = []
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=pair)
            for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.complaints))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Iterator[str], lines: list[str]) -> None:
        for line in stream:
            with self._news:
                lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def wait_for(self, pattern: str, lines: Sequence[str]) -> str:
        """The first line that matches."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [line for line in lines if re.search(pattern, line)]
            return bool(found)

        with self._news:
            assert self._news.wait_for(is_there, TIMEOUT_S), f"{pattern}: {self.lines} {self.complaints}"
        return found[0]

    def ready(self) -> list[str]:
        """The brokers' addresses, once they serve."""
        return self.wait_for("^ready ", self.lines).removeprefix("ready ").split(",")

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        status = self.process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return status


@contextmanager
def up(data: Path, *arguments: str) -> Iterator[Up]:
    running = Up(data, *arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end(signal.SIGTERM)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cluster_is_up_by_one_command_and_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0") as first:
        addresses = first.ready()
        assert [re.sub(r"(?<=pid )\d+|\d{4,}", "#", line) for line in first.lines] == [
            "zookeeper 127.0.0.1:#",
            *(f"broker {number} pid # 127.0.0.1:#" for number in (1, 2, 3)),
            "ready 127.0.0.1:#,127.0.0.1:#,127.0.0.1:#",
        ]
        Millstream(addresses[1])("topic", "create", "orders", "-p", 3)
        Millstream(addresses[0])("produce", "orders", stdin="a\nb\nc\n")
        pids = [int(line.split()[3]) for line in first.lines if line.startswith("broker ")]
        assert first.end() == 0
        assert first.complaints == []
        assert not any(map(is_alive, pids))
    with up(tmp_path, "--port", "0") as second:
        addresses = second.ready()
        assert sorted(Millstream(addresses[2])("consume", "orders", "-e").lines) == ["a", "b", "c"]
        victim = next(line for line in second.lines if line.startswith("broker 2 "))
        os.kill(int(victim.split()[3]), signal.SIGKILL)
        again = second.wait_for("^broker 2 was ended by signal 9; start it again with: ", second.complaints)
        Millstream(addresses[0])("produce", "orders", stdin="d\n")
        command = again.partition(": ")[2].split()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as restarted:
            assert restarted.stdout is not None
            assert restarted.stdout.readline().startswith("ready ")
            assert sorted(Millstream(addresses[2])("consume", "orders", "-e").lines) == ["a", "b", "c", "d"]
            restarted.terminate()
        assert second.end(signal.SIGTERM) == 0


def test_what_a_broker_says_at_its_start_is_passed_on_and_everything_ends(tmp_path: Path) -> None:
    (tmp_path / "broker-2").mkdir()
    (tmp_path / "broker-2" / "meta.properties").write_bytes(MetaProperties(7, "another").encode())
    with up(tmp_path, "--port", "0", "--brokers", "2") as refused:
        assert refused.ended() == 1
        (line,) = refused.complaints
        assert re.match(r"millstream: broker 2 did not start: .*belongs to broker 7, not to broker 2", line)


@pytest.mark.parametrize(
    "setting",
    [
        "no.such=1",
        "num.partitions=none",
        "listeners=PLAINTEXT://:1",
        "advertised.listeners=PLAINTEXT://elsewhere:9092",
        "metrics.listener=127.0.0.1:9308",
        "broker.id=7",
        "log.dirs=/elsewhere",
    ],
)
def test_settings_that_no_broker_takes_are_refused_before_anything_is_made(tmp_path: Path, setting: str) -> None:
    with up(tmp_path / "data", "--port", "0", "--set", setting) as refused:
        assert refused.ended() == 1
    (line,) = refused.complaints
    assert line.startswith("millstream: ") and setting.partition("=")[0] in line and "did not start" not in line
    assert not (tmp_path / "data").exists()


def test_one_address_for_all_brokers_is_refused_also_where_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_ADVERTISED_LISTENERS", "PLAINTEXT://elsewhere:9092")
    with up(tmp_path / "data", "--port", "0") as refused:
        assert refused.ended() == 1
    (line,) = refused.complaints
    assert line.startswith("millstream: environment MILLSTREAM_ADVERTISED_LISTENERS advertised.listeners: each broker")
    assert not (tmp_path / "data").exists()


def test_it_is_told_where_each_broker_shows_its_metrics(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--brokers", "2", "--set", "metrics.listener=127.0.0.1:0") as running:
        running.ready()
        for number in (1, 2):
            address = running.wait_for(f"^metrics {number} ", running.lines).split()[2]
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as page:
                assert page.status == 200 and page.read()
        assert running.end() == 0


def test_a_folder_that_a_cluster_runs_over_is_left_alone(tmp_path: Path) -> None:
    """Also when the command was killed, and what it started runs on."""
    with up(tmp_path, "--port", "0", "--brokers", "1") as running:
        running.ready()
        config = (tmp_path / "zookeeper-1" / "zoo.cfg").read_text()
        with up(tmp_path, "--port", "0", "--brokers", "1") as second:
            assert second.ended() == 1
        (line,) = second.complaints
        assert line.startswith(f"millstream: {tmp_path} is in use by process {running.process.pid}, ")
        assert line.endswith(": stop the cluster that runs there, or choose another with --data")
        running.end(signal.SIGKILL)
    try:
        with up(tmp_path, "--port", "0", "--brokers", "1") as third:
            assert third.ended() == 1
        (line,) = third.complaints
        (zookeeper,) = holders(tmp_path)
        assert f"is in use by process {zookeeper}: stop the cluster that runs there" in line
        assert (tmp_path / "zookeeper-1" / "zoo.cfg").read_text() == config
    finally:
        for left in [*holders(tmp_path / "broker-1"), *holders(tmp_path)]:
            os.kill(left, signal.SIGKILL)


def test_a_broker_that_was_started_by_hand_is_named_when_it_is_left_and_when_it_is_in_the_way(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--brokers", "2") as first:
        first.ready()
        os.kill(int(first.wait_for("^broker 2 ", first.lines).split()[3]), signal.SIGKILL)
        command = first.wait_for("^broker 2 was ended", first.complaints).partition(": ")[2].split()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as by_hand:
            try:
                assert by_hand.stdout is not None and by_hand.stdout.readline().startswith("ready ")
                assert first.end() == 0
                assert first.complaints[-1] == f"started by hand, and not stopped: broker 2 (pid {by_hand.pid})"
                with up(tmp_path, "--port", "0", "--brokers", "2") as second:
                    assert second.ended() == 1
                assert second.complaints == [
                    f"millstream: {tmp_path} is in use by what was started by hand: "
                    f"stop broker 2 (pid {by_hand.pid}) first"
                ]
            finally:
                by_hand.kill()


def test_a_zookeeper_that_dies_is_told_of_and_health_points_at_it(tmp_path: Path) -> None:
    # So long a session that the brokers take the controller's word for good all the time.
    patient = "zookeeper.session.timeout.ms=60000"
    with up(tmp_path, "--port", "0", "--brokers", "2", "--set", patient) as running:
        addresses = running.ready()
        brokers = [int(running.wait_for(f"^broker {number} ", running.lines).split()[3]) for number in (1, 2)]
        controller = Millstream(addresses[0])("cluster", "health", "-o", "json").document["controller"]
        (zookeeper,) = set(holders(tmp_path)) - {running.process.pid}
        os.kill(zookeeper, signal.SIGKILL)
        place = running.wait_for("^zookeeper ", running.lines)
        assert running.wait_for("^zookeeper ", running.complaints) == (
            f"{place} (pid {zookeeper}) was ended by signal 9; to have it back, stop `cluster up` and start it again"
        )
        gone, left = addresses[controller - 1], addresses[2 - controller]
        advice = ", and the cluster does not know it; where that lasts, see whether its registry (ZooKeeper) runs\n"
        for number, said in (
            (signal.SIGSTOP, f"{gone} did not answer within 5 s"),
            (signal.SIGKILL, f"nothing listens at {gone}"),
        ):
            os.kill(brokers[controller - 1], number)
            if number == signal.SIGKILL:
                running.wait_for(f"^broker {controller} was ended", running.complaints)
            unwell = Millstream(left)("cluster", "health", "--timeout", "5s", code=1)
            # The broker that is left may also have been without ZooKeeper for so long that it names no controller.
            assert unwell.errors == f"millstream: {said}{advice}" or f"controller: {NO_CONTROLLER}" in unwell.output
        os.kill(brokers[2 - controller], signal.SIGKILL)
        assert running.ended() == 1


def test_without_zookeeper_brokers_wait_together_to_hand_over_rather_than_in_turn(tmp_path: Path) -> None:
    with up(tmp_path, "--port", "0", "--brokers", "2") as running:
        Millstream(running.ready()[0])("topic", "create", "orders", "-p", 2)
        brokers = [int(running.wait_for(f"^broker {number} ", running.lines).split()[3]) for number in (1, 2)]
        (zookeeper,) = set(holders(tmp_path)) - {running.process.pid}
        os.kill(zookeeper, signal.SIGKILL)
        running.wait_for("^zookeeper ", running.complaints)
        running.process.send_signal(signal.SIGINT)
        for number in (1, 2):
            running.wait_for(f"^broker {number}: .*could not ask to be relieved", running.complaints)
        assert not any("stops while it still leads" in line for line in running.complaints)
        for pid in brokers:
            os.kill(pid, signal.SIGKILL)
        assert running.ended() == 0


def test_ports_that_are_taken_are_said_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with up(tmp_path / "data", "--port", str(port)) as refused:
            assert refused.ended() == 1
    assert refused.complaints == [
        f"millstream: port {port} cannot be had (Address already in use); choose others with --port"
    ]
    assert not (tmp_path / "data").exists()


def test_an_ensemble_is_not_grown_by_chance(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-1").mkdir()
    with up(tmp_path, "--port", "0", "--zookeeper", "3") as refused:
        assert refused.ended() == 1
    assert refused.complaints == [f"millstream: {tmp_path} holds a cluster of 1 ZooKeepers; go on with --zookeeper 1"]


@pytest.mark.parametrize("count", ["0", "-1", "three", "100"])
def test_a_number_of_brokers_that_cannot_be_is_a_misuse(tmp_path: Path, count: str) -> None:
    with up(tmp_path, f"--brokers={count}") as refused:
        assert refused.ended() == 2
    assert "is not a number of brokers: 1 to 99" in refused.complaints[-1]
