"""What Spark says without meaning anything is not passed on; everything else is, in order."""

from millstream.pipelines.running.hush import Hush

BEGIN = "Traceback (most recent call last):"
DAEMON = [
    '  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager',
    "    code = worker(sock, authenticated)",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    '  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker',
]
END = "BrokenPipeError: [Errno 32] Broken pipe"


def heard(*lines: str) -> list[str]:
    hush = Hush()
    return [passed for line in lines for passed in hush.passed(line)]


def test_workers_that_are_let_go_are_not_heard_though_several_speak_at_once() -> None:
    assert heard("a", BEGIN, *DAEMON, END, "b") == ["a", "b"]
    assert heard(BEGIN, BEGIN, *DAEMON, END, *DAEMON, END, "c") == ["c"]
    assert heard(BEGIN, DAEMON[0], "    code = worker(sock)", "           ^^^^^", DAEMON[1], END, "e") == ["e"]
    assert heard(BEGIN, BEGIN, *DAEMON, *DAEMON, END, END, "e") == ["e"]
    assert heard("WARNING: Using incubator modules: jdk", "d") == ["d"]


def test_what_went_wrong_is_heard() -> None:
    other = [BEGIN, '  File "/x/mine.py", line 1, in f', "BrokenPipeError: mine"]
    assert heard(*other) == other
    own = ['  File "/x/worker.py", line 9, in g', "    g()", "KeyError: 1"]
    assert heard(BEGIN, *DAEMON, *own) == own
