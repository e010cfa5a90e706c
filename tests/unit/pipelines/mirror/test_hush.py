"""Only the one traceback is kept back, and no line of another is lost or moved."""

from millstream.pipelines.mirror.hush import Hush

BEGIN = "Traceback (most recent call last):"
NOISE = [BEGIN, '  File "x/pyspark/daemon.py", line 264, in manager', "BrokenPipeError: [Errno 32] Broken pipe"]
OTHER = [BEGIN, '  File "x/ours.py", line 1, in f', "    f()", "ValueError: no"]


def passed(*lines: str) -> list[str]:
    hush = Hush()
    return [line for given in lines for line in hush.heard(given)]


def test_a_worker_that_lost_its_jvm_is_not_heard() -> None:
    assert passed("before", *NOISE, "after") == ["before", "after"]


def test_any_other_traceback_is_passed_on_whole() -> None:
    assert passed("before", *OTHER, "after") == ["before", *OTHER, "after"]
    ours = [BEGIN, '  File "x/ours.py", line 1, in f', "BrokenPipeError: [Errno 32] Broken pipe"]
    assert passed(*ours, *NOISE, *OTHER) == [*ours, *OTHER]


def test_one_that_is_cut_by_another_is_passed_on() -> None:
    assert passed(OTHER[0], OTHER[1], *NOISE) == OTHER[:2]
