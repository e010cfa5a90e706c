"""The glue: every request has one part, every record one reader, and what is nobody's is reported."""

from typing import NamedTuple

from millstream.coordination.decision import Origin
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas import consumer_offsets
from millstream.coordination.schemas.record import CoordinatorRecord
from tests.unit.coordination.stage import Topics, counted_ids


class StrangeKey(NamedTuple):
    name: str


def made(reports: list[str]) -> GroupMachine:
    return GroupMachine(GroupSettings, Topics(), counted_ids(), reports.append)


def test_a_record_that_is_nobodys_is_reported_and_skipped() -> None:
    reports: list[str] = []
    machine = made(reports)
    machine.replay(CoordinatorRecord(StrangeKey("x"), None), Origin(5, 0))
    assert len(reports) == 1
    assert "5" in reports[0]
    assert "StrangeKey" in reports[0]
    assert machine.groups == {}


def test_every_record_of_the_topic_has_a_reader() -> None:
    machine = made([])
    keys = {value for name, value in vars(consumer_offsets).items() if name.endswith("Key")}
    assert keys <= machine._replays.keys()


def test_parts_take_up_their_timers_when_the_log_is_read() -> None:
    assert [timer.key for timer in made([]).loaded(0).timers] == ["expire-offsets"]
