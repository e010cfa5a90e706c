"""An error in one line, and whether another try is worth it."""

import pytest

from millstream.client.wire import Unreachable
from millstream.pipelines.running.failures import PipelineError, diagnose
from millstream.pipelines.streams.errors import StreamsError


class AnalysisException(Exception):
    """As Spark's own, which needs Spark."""


class StreamingQueryException(Exception):
    """As Spark's own."""


def query_failed(cause: str) -> StreamingQueryException:
    return StreamingQueryException(
        f"[STREAM_FAILED] Query [id = b-1, runId = 3-a] terminated with exception: {cause} SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: x\nLogical Plan:\nProject [value AS Value]\n"
    )


def carried(last: str) -> str:
    return (
        "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform initialOffset: "
        'Traceback (most recent call last):\n  File "source.py", line 159, in initialOffset\n    x = refuse()\n'
        f"        ^^^^^^^^\n{last}\n SQLSTATE: 38000"
    )


@pytest.mark.parametrize(
    ("cause", "message", "is_final"),
    [
        (carried("millstream.config.setting.SettingError: subscribe=a: no topic"), "subscribe=a: no topic", True),
        (carried("millstream.client.wire.Unreachable: nothing listens"), "nothing listens", False),
        (carried("millstream.pipelines.spark.planning.DataLost: a-0 gone"), "a-0 gone", True),
        (carried("KeyError: 'total'"), "KeyError: 'total'", False),
        (carried("ModuleNotFoundError: No module named 'x'"), "ModuleNotFoundError: No module named 'x'", True),
        (carried("TimeoutError"), "TimeoutError", False),
        ("[USER_RAISED_EXCEPTION] a record does not fit", "a record does not fit", True),
        (
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match.\nplan",
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match.",
            True,
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0"
            " in stage 1.0 (TID 1) (host executor): org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION]"
            " a record does not fit SQLSTATE: P0001\n\tat org.apache",
            "a record does not fit",
            True,
        ),
        ("Job aborted due to stage failure: a worker\n\tat x", "Job aborted due to stage failure: a worker", False),
    ],
)
def test_a_query_that_failed_is_told_by_what_lies_at_the_bottom(cause: str, message: str, is_final: bool) -> None:
    assert diagnose(query_failed(cause)) == (message, is_final)


def test_what_the_file_does_wrong_is_wrong_again_next_time() -> None:
    try:
        exec(compile("def f():\n    return nothing\n\nf()\n", "orders.py", "exec"), {})
    except NameError as error:
        found = diagnose(error, file="orders.py", is_building=True)
    assert found == ("orders.py:2: NameError: name 'nothing' is not defined", True)


def test_a_broker_that_is_away_while_the_pipeline_is_built_is_worth_another_try() -> None:
    assert not diagnose(Unreachable("nothing listens"), is_building=True).is_final
    away = AnalysisException(carried("millstream.client.wire.Unreachable: nothing listens"))
    assert diagnose(away, is_building=True) == ("nothing listens", False)


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "No such file", "rates.csv"), ZeroDivisionError("division by zero")]
)
def test_other_errors_while_it_is_built_are_final(error: Exception) -> None:
    assert diagnose(error, is_building=True).is_final


def test_our_own_errors_are_told_as_they_are() -> None:
    assert diagnose(PipelineError("a.yaml:3: sink: no topic")) == ("a.yaml:3: sink: no topic", True)
    assert diagnose(StreamsError("format='x': one of json")) == ("format='x': one of json", True)


def test_an_error_without_a_word_is_told_by_its_name() -> None:
    assert diagnose(ConnectionResetError()) == ("ConnectionResetError", False)
