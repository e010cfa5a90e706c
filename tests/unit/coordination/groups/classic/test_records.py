import pytest

from millstream.coordination.groups.classic.group import ClassicGroup, State
from millstream.coordination.groups.classic.records import replay
from millstream.coordination.groups.group import Groups
from millstream.coordination.schemas.consumer_offsets import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.unit.coordination.groups.classic.machine import subscription

KEY = GroupMetadataKey(group="readers")


def row(member_id: str, instance_id: str | None = None, rebalance_timeout: int = 60_000) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="client",
        client_host="/host",
        rebalance_timeout=rebalance_timeout,
        session_timeout=10_000,
        subscription=subscription("orders"),
        assignment=f"share of {member_id}".encode(),
    )


def value(*rows: MemberMetadata, leader: str | None = "a", generation: int = 5) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if rows else None,
        leader=leader if rows else None,
        current_state_timestamp=777,
        members=list(rows),
    )


class Log:
    """Records replayed into an empty coordinator."""

    def __init__(self) -> None:
        self.groups: Groups = {}
        self.reports: list[str] = []

    def take(self, record: GroupMetadataValue | None) -> None:
        replay(self.groups, KEY, record, 1_000, self.reports.append)

    @property
    def group(self) -> ClassicGroup:
        group = self.groups["readers"]
        assert isinstance(group, ClassicGroup)
        return group


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_group_comes_back_with_its_members(log: Log) -> None:
    log.take(value(row("a"), row("s2", "s")))
    group = log.group
    assert (group.state, group.state_since_ms, group.generation) == (State.STABLE, 777, 5)
    assert (group.protocol_type, group.protocol_name, group.leader_id) == ("consumer", "range", "a")
    assert group.instances == {"s": "s2"}
    assert [each.assignment for each in group.members.values()] == [b"share of a", b"share of s2"]
    assert group.subscribed_topics == frozenset({"orders"})
    assert group.is_supporting("consumer", ["range"])
    assert not log.reports


def test_a_later_record_stands_for_an_earlier_one(log: Log) -> None:
    log.take(value(row("a"), row("b")))
    log.take(value(generation=6))
    assert (log.group.state, log.group.generation, log.group.leader_id) == (State.EMPTY, 6, None)
    assert log.group.supporters == {}
    log.take(value(row("c"), generation=7, leader="c"))
    assert (log.group.state, log.group.leader_id, list(log.group.members)) == (State.STABLE, "c", ["c"])
    log.take(None)
    assert not log.groups
    log.take(None)
    assert not log.groups


def test_a_tombstone_ends_the_group_for_whoever_still_holds_it(log: Log) -> None:
    log.take(value(row("a")))
    held = log.group
    log.take(None)
    assert held.state is State.DEAD


def test_old_records_say_less(log: Log) -> None:
    """Version 0 knew no rebalance time-out, and no time of the state."""
    record = value(row("a", rebalance_timeout=-1))
    record.current_state_timestamp = -1
    log.take(record)
    assert log.group.members["a"].rebalance_timeout_ms == 10_000
    assert log.group.state_since_ms is None


def test_a_damaged_member_does_not_keep_the_others_out(log: Log) -> None:
    log.take(value(row(""), row("a"), row("a"), row("s1", "s"), row("s2", "s"), row("b")))
    assert list(log.group.members) == ["a", "s1", "b"]
    assert log.group.instances == {"s": "s1"}
    assert len(log.reports) == 3


def test_a_leader_who_is_not_there_does_not_lead(log: Log) -> None:
    log.take(value(row("b"), row("c"), leader="a"))
    assert log.group.leader_id == "b"


def test_a_record_that_names_no_leader_is_of_a_group_that_has_yet_to_meet(log: Log) -> None:
    log.take(value(row("b"), row("c"), leader=None))
    assert (log.group.leader_id, log.group.has_yet_to_meet) == (None, True)
    log.take(value(row("b"), row("c"), leader="c", generation=6))
    assert not log.group.has_yet_to_meet
    log.take(value(generation=7))
    assert not log.group.has_yet_to_meet


def test_a_member_without_readable_metadata_is_a_member_all_the_same(log: Log) -> None:
    odd = row("a")
    odd.subscription = b"?"
    log.take(value(odd, row("b")))
    assert list(log.group.members) == ["a", "b"]
    assert log.group.is_subscribed("anything")
