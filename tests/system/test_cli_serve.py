"""``millstream serve`` as a process: its one line, its end, and what it says when it cannot start."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.broker_process import BrokerFailed, BrokerProcess
from tests.system.command import Millstream


def refusal_of(*words: str) -> str:
    """What a serve that cannot start says, in one line on standard error."""
    result = subprocess.run(
        [sys.executable, "-m", "millstream", "serve", *words], capture_output=True, text=True, timeout=20, check=False
    )
    assert result.returncode not in (0, None)
    assert "ready" not in result.stdout
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


def test_one_line_says_that_it_is_ready_and_sigterm_ends_it(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    assert broker.output == f"ready {broker.address}\n"
    assert broker.stop() == 0
    assert broker.output == f"ready {broker.address}\n"


def test_ctrl_c_ends_it_too(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path).start()
    broker.signal(signal.SIGINT)
    assert broker.wait(20) in (0, 130)
    assert "Traceback" not in broker.output


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_records_outlive_the_process(tmp_path: Path, end: str) -> None:
    broker = BrokerProcess(tmp_path).start()
    Millstream(broker.address)("produce", "orders", stdin="a\nb\n")
    first = broker.address
    getattr(broker, end)()
    with broker:
        assert broker.address == first
        assert Millstream(broker.address)("consume", "orders", "-e").lines == ["a", "b"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_reader_that_follows_goes_on_after_its_broker_was_away(tmp_path: Path, end: str) -> None:
    broker = BrokerProcess(tmp_path).start()
    millstream = Millstream(broker.address)
    millstream("topic", "create", "orders", "-p", 2)
    follower = millstream.start("consume", "orders")
    try:
        assert follower.stdout is not None
        for word in ("before", "after"):
            millstream("produce", "orders", stdin=f"{word}\n")
            assert follower.stdout.readline() == f"{word}\n"
            getattr(broker, end)()
            broker.start()
        follower.send_signal(signal.SIGINT)
        assert follower.communicate(timeout=10) == ("", "")
    finally:
        follower.kill()
        follower.wait()
        broker.stop()
    assert follower.returncode == 130


def test_settings_come_from_file_environment_and_options_in_rising_order(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.segment.bytes=2000000\nlog.retention.bytes=7000\n")
    broker = BrokerProcess(
        tmp_path / "data",
        arguments=["--config", str(file)],
        environ={"MILLSTREAM_LOG_SEGMENT_BYTES": "3000000", "MILLSTREAM_NUM_PARTITIONS": "3"},
        settings={"num.partitions": 5},
    )
    with broker:
        rows = Millstream(broker.address)("config", "describe", "broker", 0, "-o", "json").document
        values = {row["name"]: row["value"] for row in rows}
    chosen = {name: values[name] for name in ("num.partitions", "log.segment.bytes", "log.retention.bytes")}
    assert chosen == {"num.partitions": "5", "log.segment.bytes": "3000000", "log.retention.bytes": "7000"}


def test_a_taken_port_and_a_locked_folder_are_told(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one") as broker:
        port = broker.address.rpartition(":")[2]
        assert port in refusal_of("--port", port, "--data", str(tmp_path / "two"))
        assert str(tmp_path / "one") in refusal_of("--port", "0", "--data", str(tmp_path / "one"))
        assert Millstream(broker.address)("topic", "list", "-q").lines == []


def test_bad_settings_and_files_are_told(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert "log.segment.bytes" in refusal_of("--port", "0", "--data", data, "--set", "log.segment.bytes=many")
    missing = str(tmp_path / "there-is-none")
    assert missing in refusal_of("--port", "0", "--data", data, "--config", missing)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert str(tmp_path / "file") in refusal_of("--port", "0", "--data", str(tmp_path / "file" / "data"))


def test_a_broker_that_does_not_start_shows_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match=r"log\.segment\.bytes"):
        BrokerProcess(tmp_path, settings={"log.segment.bytes": "many"}).start()
