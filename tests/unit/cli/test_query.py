"""``millstream query`` where it needs no Spark: what is wrong is told before it is started."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millstream.cli.main import main
from millstream.cli.watching import Watching

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from millstream.cli.main import main
sys.exit(main(["query", "SELECT 1"]))
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["SELECT 'a"], "millstream: the quote ' (line 1, pos 7) is never closed\n"),
        (["-b", "127.0.0.1:1", "FROM topic('x')"], "millstream: nothing listens at 127.0.0.1:1"),
        (["-b", "here:port", "FROM topic('x')"], "millstream: kafka.bootstrap.servers=here:port: "),
        (["--path", "/no/such", "FROM topic('x')"], "millstream: path=/no/such: is no log directory"),
        (["FROM topic('x', format => 'xml')"], "millstream: topic('x'): format => 'xml': must be one of avro, csv"),
        (["FROM topic('x', format => 'csv')"], "millstream: topic('x'): format => 'csv': needs schema => '…'"),
        (["FROM topic('x', errors => 'drop')"], "millstream: topic('x'): errors => 'drop': must be fail or column"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", *arguments]) == 1
    told = capsys.readouterr()
    assert told.err.startswith(said)
    assert (told.err.count("\n"), told.out) == (1, "")


def test_a_topic_that_a_log_directory_has_not_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "--path", str(tmp_path), "FROM topic('x')"]) == 1
    assert capsys.readouterr().err == f"millstream: path={tmp_path} has no x\n"


def test_without_spark_it_says_what_to_install() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "millstream: a query needs Spark, which is not installed; pip install 'millstream[spark]'\n"
    )


def test_progress_is_told_on_a_terminal_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = os.openpty()
    with open(follower, "w") as terminal, open(leader, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stderr", terminal)
        asked: list[float] = []

        def line(elapsed_s: float) -> str:
            asked.append(elapsed_s)
            return "half of it"

        with Watching(line):
            deadline_s = time.monotonic() + 30
            while not asked and time.monotonic() < deadline_s:
                time.sleep(0.01)
        assert asked
        seen = b""
        while not seen.endswith(b"of it\r\x1b[K"):  # A terminal gives what was written piece by piece.
            seen += screen.read(1000)
    assert seen.startswith(b"\r\x1b[Khalf of it")
