import pytest

from millstream.coordination.decision import Timer
from millstream.coordination.groups.classic.events import SessionExpired
from millstream.coordination.groups.classic.group import TRANSITIONS, ClassicGroup, ClassicMember, State
from millstream.coordination.groups.group import Group, GroupType
from millstream.coordination.schemas.consumer_offsets import GroupMetadataKey
from millstream.model.errors import ErrorCode, ProtocolError
from tests.unit.coordination.groups.classic.machine import subscription

NOW_MS = 1_000


def member(member_id: str, instance_id: str | None = None, **protocols: bytes) -> ClassicMember:
    return ClassicMember(
        member_id, instance_id, "client", "/host", 60_000, 10_000, protocols or {"range": subscription("orders")}
    )


def group_in(state: State, *members: ClassicMember, protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup("readers")
    for each in members:
        group.add(each, protocol_type)
    group.state = state
    if members:
        group.generation = 3
        group.protocol_name = group.elect_protocol()
    return group


def refusal(group: ClassicGroup, member_id: str, epoch: int, instance_id: str | None = None) -> ErrorCode:
    with pytest.raises(ProtocolError) as raised:
        group.check_commit(member_id, instance_id, epoch, (), is_transactional=False, version=9)
    return raised.value.code


def may_commit(group: ClassicGroup, member_id: str, epoch: int, *, is_transactional: bool = False) -> list[Timer]:
    return list(group.check_commit(member_id, None, epoch, (), is_transactional=is_transactional, version=9))


def test_a_classic_group_is_a_group() -> None:
    group: Group = ClassicGroup("readers")
    assert (group.type, group.state_name, group.protocol_type) == (GroupType.CLASSIC, "Empty", "")
    [tombstone] = group.tombstones()
    assert tombstone == (GroupMetadataKey(group="readers"), None)


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_only_the_states_of_the_table_may_be_entered(before: State, after: State) -> None:
    group = ClassicGroup("readers")
    group.state = before
    if after in TRANSITIONS[before]:
        group.enter(after, NOW_MS)
        assert (group.previous_state, group.state, group.state_since_ms) == (before, after, NOW_MS)
    else:
        with pytest.raises(AssertionError):
            group.enter(after, NOW_MS)


def test_a_member_may_commit_and_lives() -> None:
    group = group_in(State.STABLE, member("a"))
    assert may_commit(group, "a", 3) == [Timer(("session", "readers", "a"), 10_000, SessionExpired("readers", "a"))]
    group.state = State.PREPARING
    assert len(may_commit(group, "a", 3)) == 1
    assert may_commit(group, "a", 3, is_transactional=True) == []


def test_a_generation_without_an_assignment_commits_only_in_transactions() -> None:
    group = group_in(State.COMPLETING, member("a"))
    assert refusal(group, "a", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert may_commit(group, "a", 3, is_transactional=True) == []


def test_strangers_and_zombies_may_not_commit() -> None:
    group = group_in(State.STABLE, member("a"), member("s2", "s"))
    assert refusal(group, "b", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group, "a", 2) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(group, "a", -1) is ErrorCode.ILLEGAL_GENERATION
    assert refusal(group, "s1", 3, "s") is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(group, "s1", 3, "t") is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(group, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert may_commit(group, "", -1, is_transactional=True) == []


def test_anybody_commits_to_an_empty_group_who_claims_no_generation() -> None:
    group = group_in(State.EMPTY)
    assert may_commit(group, "", -1) == []
    assert may_commit(group, "whoever", -1) == []
    assert refusal(group, "", 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_dead_group_serves_nobody() -> None:
    group = group_in(State.DEAD)
    assert refusal(group, "", -1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ProtocolError, match="GROUP_ID_NOT_FOUND"):
        group.check_fetch(None, -1)
    with pytest.raises(ProtocolError, match="GROUP_ID_NOT_FOUND"):
        group.check_delete()


@pytest.mark.parametrize("state", [State.PREPARING, State.COMPLETING, State.STABLE])
def test_a_group_with_members_is_read_by_all_and_deleted_by_none(state: State) -> None:
    group = group_in(state, member("a"))
    group.check_fetch(None, -1)
    group.check_fetch("whoever", 7)
    with pytest.raises(ProtocolError, match="NON_EMPTY_GROUP"):
        group.check_delete()


def test_an_empty_group_may_be_deleted() -> None:
    group_in(State.EMPTY).check_delete()


def test_a_group_reads_what_its_members_read() -> None:
    both = member("b", range=subscription("bills", "refunds"))
    group = group_in(State.STABLE, member("a"), both)
    assert group.subscribed_topics == frozenset({"orders", "bills", "refunds"})
    assert group.is_subscribed("bills")
    assert not group.is_subscribed("news")


def test_a_group_whose_metadata_cannot_be_read_reads_everything() -> None:
    group = group_in(State.STABLE, member("a"), member("b", range=b"?"))
    assert group.subscribed_topics is None
    assert group.is_subscribed("news")


def test_a_group_that_has_elected_no_protocol_yet_reads_everything() -> None:
    group = group_in(State.PREPARING, member("a"))
    group.protocol_name = None
    assert group.is_subscribed("news")


def test_who_is_no_consumer_reads_no_topics() -> None:
    connect = group_in(State.STABLE, member("a"), protocol_type="connect")
    assert not connect.is_subscribed("orders")
    assert not ClassicGroup("simple").is_subscribed("orders")


def test_offsets_of_a_simple_group_expire_by_their_own_age() -> None:
    assert ClassicGroup("simple").offsets_expire_from(700) == 700


def test_offsets_of_an_empty_group_expire_from_when_it_became_empty() -> None:
    group = group_in(State.EMPTY)
    group.protocol_type = "consumer"
    group.state_since_ms = NOW_MS
    assert group.offsets_expire_from(700) == NOW_MS
    group.state_since_ms = None  # Its record is too old to say.
    assert group.offsets_expire_from(700) == 700


def test_offsets_in_use_expire_only_where_it_is_known_what_is_read() -> None:
    assert group_in(State.STABLE, member("a")).offsets_expire_from(700) == 700
    assert group_in(State.PREPARING, member("a")).offsets_expire_from(700) is None
    assert group_in(State.COMPLETING, member("a")).offsets_expire_from(700) is None
    assert group_in(State.STABLE, member("a", range=b"?")).offsets_expire_from(700) is None
    assert group_in(State.STABLE, member("a"), protocol_type="connect").offsets_expire_from(700) is None


def test_votes_elect_the_protocol() -> None:
    group = group_in(
        State.STABLE, member("a", x=b"", y=b"", z=b""), member("b", z=b"", y=b""), member("c", z=b"", y=b"", x=b"")
    )
    assert group.elect_protocol() == "z"
    group.change_protocols(group.members["b"], {"y": b""})
    assert group.elect_protocol() == "y"
    assert not group.is_supporting("consumer", ["x", "z"])
    assert group.is_supporting("consumer", ["q", "y"])
    assert not group.is_supporting("connect", ["y"])


def test_where_two_protocols_are_even_the_first_vote_counts() -> None:
    assert group_in(State.STABLE, member("a", x=b"", y=b""), member("b", y=b"", x=b"")).elect_protocol() == "x"
