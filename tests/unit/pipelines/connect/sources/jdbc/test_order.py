"""Places among rows, as offsets name them."""

from datetime import UTC, datetime

import pytest

from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.sources.jdbc.order import LEAST, Order

NUMBER = Order(("id",), ("int8",), has_time=False, has_number=True)
TIME = Order(("at",), ("timestamptz",), has_time=True, has_number=False)
BOTH = Order(("at", "id"), ("timestamp", "int8"), has_time=True, has_number=True)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("1970-01-01 00:00:01.500001+00", {"timestamp": 1500, "timestamp_nanos": 500_001_000}),
        ("1969-12-31 23:59:59.25+00", {"timestamp": -750, "timestamp_nanos": 250_000_000}),
        ("2024-01-01", {"timestamp": 1704067200000, "timestamp_nanos": 0}),
    ],
)
def test_a_time_is_kept_to_the_microsecond(text: str, offset: dict[str, int]) -> None:
    assert TIME.offset((text,)) == offset
    moment = datetime.fromisoformat(text)
    assert TIME.values(offset) == [moment if moment.tzinfo else moment.replace(tzinfo=UTC)]


def test_a_number_is_a_whole_number() -> None:
    assert NUMBER.offset(("5.00",)) == {"incrementing": 5}
    assert NUMBER.values({"incrementing": 5}) == [5]


def test_a_moment_without_a_number_is_before_every_row_of_it() -> None:
    assert BOTH.values({"timestamp": 0}) == [datetime(1970, 1, 1, tzinfo=UTC), LEAST]
    both = BOTH.offset(("1970-01-01 00:00:00", "7"))
    assert both == {"timestamp": 0, "timestamp_nanos": 0, "incrementing": 7}


@pytest.mark.parametrize("order", [NUMBER, TIME, BOTH])
def test_an_offset_of_another_mode_is_refused(order: Order) -> None:
    with pytest.raises(Misconfigured, match="has no"):
        order.values({"read_ms": 5})
