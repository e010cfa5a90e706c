"""Where reading begins."""

from datetime import UTC, datetime
from typing import Any

import pytest

from millstream.client.application.errors import BadSetting
from millstream.client.application.start import checked, moment_ms


@pytest.mark.parametrize("start", ["earliest", "latest", 0, 17, datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_start_is_an_end_an_offset_or_a_moment(start: Any) -> None:
    assert checked(start) == start


@pytest.mark.parametrize("start", ["beginning", -1, True, None, 1.5, datetime(2026, 1, 1)])
def test_anything_else_is_refused(start: Any) -> None:
    with pytest.raises(BadSetting, match="start="):
        checked(start)


def test_a_moment_before_1970_is_1970_as_no_record_is_older() -> None:
    assert moment_ms(datetime(1960, 1, 1, tzinfo=UTC)) == 0
