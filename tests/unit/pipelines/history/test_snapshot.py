"""Which records a call's table has, on real log files."""

import json
from pathlib import Path

import pytest

from millstream.model.records import Record, encode_batch
from millstream.pipelines.history.calls import Call, rewrite
from millstream.pipelines.history.errors import QueryError
from millstream.pipelines.history.snapshot import take
from millstream.pipelines.spark.segments import DirectoryOrigin

Ranges = dict[int, tuple[int, int]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions: ten records from second 100 on, a second apart, and four from second 200 on."""
    path = tmp_path_factory.mktemp("log")
    for partition, (count, start_s) in enumerate([(10, 100), (4, 200)]):
        file = path / f"orders-{partition}" / f"{0:020d}.log"
        file.parent.mkdir()
        records = [Record(value=b"v", timestamp=(start_s + number) * 1000) for number in range(count)]
        file.write_bytes(encode_batch(records, base_offset=0))
    return path


def seconds(text: str) -> int:
    """Moments of these tests are seconds."""
    if not text.endswith("s"):
        raise ValueError(f"{text!r} is not a time")
    return int(text[:-1]) * 1000


def ranges(log: Path, call: str) -> Ranges:
    (found,) = rewrite(f"FROM {call}").calls.values()
    snapshot = take(found, {"path": str(log)}, DirectoryOrigin, seconds)
    starts, stops = (json.loads(snapshot.options[name])["orders"] for name in ("startingOffsets", "endingOffsets"))
    result = {int(number): (starts[number], stops[number]) for number in stops}
    assert snapshot.offsets == sum(stop - start for start, stop in result.values())
    return result


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("topic('orders')", {0: (0, 10), 1: (0, 4)}),
        ("topic('orders', from_offset => 3)", {0: (3, 10), 1: (3, 4)}),
        ("topic('orders', from_offset => 5)", {0: (5, 10), 1: (4, 4)}),
        ("topic('orders', to_offset => 5)", {0: (0, 5), 1: (0, 4)}),
        ("topic('orders', from_offset => -2)", {0: (8, 10), 1: (2, 4)}),
        ("topic('orders', from_offset => -100)", {0: (0, 10), 1: (0, 4)}),
        ("topic('orders', to_offset => -3)", {0: (0, 7), 1: (0, 1)}),
        ("topic('orders', to_offset => -100)", {0: (0, 0), 1: (0, 0)}),
        ("topic('orders', from_offset => 7, to_offset => 3)", {0: (3, 3), 1: (3, 3)}),
        ("""topic('orders', from_offset => '{"0": 7}', to_offset => '{"1": -1}')""", {0: (7, 10), 1: (0, 3)}),
        ("topic('orders', from_time => '105s')", {0: (5, 10), 1: (0, 4)}),
        ("topic('orders', from_time => 300000)", {0: (10, 10), 1: (4, 4)}),
        ("topic('orders', to_time => '105s')", {0: (0, 5), 1: (0, 0)}),
        ("topic('orders', from_time => '103s', to_time => '202s')", {0: (3, 10), 1: (0, 2)}),
        ("topic('orders', from_time => '103s', to_offset => 6)", {0: (3, 6), 1: (0, 4)}),
        ("topic('orders') TIMESTAMP AS OF '105s'", {0: (0, 6), 1: (0, 0)}),
        ("topic('orders') VERSION AS OF 3", {0: (0, 3), 1: (0, 3)}),
    ],
)
def test_bounds_are_turned_into_offsets_of_every_partition(log: Path, call: str, expected: Ranges) -> None:
    assert ranges(log, call) == expected


def test_arguments_become_options_of_the_source(log: Path) -> None:
    call = Call("orders", (("disorder", "10m"), ("headers", True), ("isolation", "read_committed")))
    options = take(call, {"path": str(log), "kafka.isolation.level": "read_uncommitted"}, DirectoryOrigin, seconds)[0]
    assert options["includeHeaders"] == "true"
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["maxTimestampDisorder"] == "10m"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("topic('nope')", "has no nope"),
        ("topic('orders', isolation => 'dirty')", "topic('orders'): isolation => 'dirty': must be"),
        ("topic('orders', disorder => 'long')", "topic('orders'): disorder => 'long': must be a time such as"),
        ("topic('orders', from_time => 'soon')", "topic('orders'): from_time => 'soon': 'soon' is not a time"),
        ("topic('orders', from_time => -5)", "from_time => -5: must be a time after 1970"),
        ("topic('orders', from_offset => 'x')", "from_offset => 'x': must be an offset, or offsets by partition"),
        ("""topic('orders', from_offset => '{"0": "x"}')""", "must be an offset, or offsets by partition"),
        ("""topic('orders', to_offset => '{"7": 1}')""", "there is no partition 7 of orders"),
        ("topic('orders', to_offset => 1) VERSION AS OF 3", "to_offset says already where the table ends"),
        ("topic('orders', to_time => 1) TIMESTAMP AS OF 3", "to_time says already where the table ends"),
    ],
)
def test_what_cannot_be_is_refused_in_the_words_of_the_call(log: Path, call: str, said: str) -> None:
    with pytest.raises(QueryError) as refusal:
        ranges(log, call)
    assert said in str(refusal.value)
