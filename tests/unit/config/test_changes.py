"""Changing settings while running."""

import pytest

from millstream.config.broker import BrokerConfig
from millstream.config.changes import Change, Operation, changed, check_broker_overrides
from millstream.config.topic import TOPIC_SETTINGS
from millstream.model.errors import ErrorCode, ProtocolError


def after(overrides: dict[str, str], *changes: Change) -> dict[str, str]:
    return changed(TOPIC_SETTINGS, overrides, changes, in_force={"cleanup.policy": "delete"})


def test_set_and_delete_touch_only_what_they_name() -> None:
    had = {"retention.ms": "1", "segment.ms": "2"}
    result = after(had, Change("retention.ms", Operation.SET, "5"), Change("segment.ms", Operation.DELETE, None))
    assert result == {"retention.ms": "5"}
    assert had == {"retention.ms": "1", "segment.ms": "2"}
    assert after({}, Change("segment.ms", Operation.DELETE, None)) == {}


def test_a_list_grows_from_what_is_in_force_and_shrinks() -> None:
    append = Change("cleanup.policy", Operation.APPEND, "compact,delete,compact")
    assert after({}, append) == {"cleanup.policy": "delete,compact"}
    assert after({"cleanup.policy": "compact"}, append) == {"cleanup.policy": "compact,delete"}
    subtract = Change("cleanup.policy", Operation.SUBTRACT, "delete")
    assert after({"cleanup.policy": "compact,delete"}, subtract) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([Change("retention.ms", Operation.APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([Change("nonsense", Operation.SUBTRACT, "1")], ErrorCode.INVALID_CONFIG),
        ([Change("retention.ms", Operation.SET, None)], ErrorCode.INVALID_REQUEST),
        ([Change("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([Change("retention.ms", Operation.SET, "1")] * 2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_is_refused(changes: list[Change], code: ErrorCode) -> None:
    with pytest.raises(ProtocolError) as caught:
        after({}, *changes)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"num.partitions": "2"}, "num.partitions cannot be changed while the broker runs"),
        ({"log.retention.m": "2"}, "unknown setting 'log.retention.m'"),
        ({"log.retention.ms": "0"}, "must be"),
        ({"log.cleaner.max.compaction.lag.ms": "1"}, "at most log.cleaner.max"),
    ],
)
def test_a_broker_refuses_what_it_cannot_change(overrides: dict[str, str], complaint: str) -> None:
    config = BrokerConfig.load(overrides=["log.cleaner.min.compaction.lag.ms=2"])
    with pytest.raises(ProtocolError, match=complaint) as caught:
        check_broker_overrides(overrides, config)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_broker_takes_what_it_can_change() -> None:
    check_broker_overrides({"log.retention.ms": "5", "max.connections": "9"}, BrokerConfig.load())
