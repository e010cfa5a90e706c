"""What clients can ask and change about groups without being in them."""

from __future__ import annotations

import pytest

from tests.compatibility.clients import each_driver
from tests.compatibility.conftest import Hosts, NewTopic
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import Group, Record, Refused
from tests.compatibility.members import leaving, places_of, settled

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


@pytest.fixture
def topic(new_topic: NewTopic, seed: Driver) -> str:
    """Of two partitions, five records in the second."""
    topic = new_topic(partitions=2)
    seed.produce(topic, [Record(b"x")] * 5, partition=1)
    return topic


@each_driver("list_groups", "describe_group", "group_offsets")
def test_a_group_is_shown_with_its_members_and_offsets(driver: Driver, hosts: Hosts, topic: str, group: str) -> None:
    members = [hosts["confluent"].join(group, topic) for _ in range(2)]
    with leaving(*members):
        settled(places_of(topic, 2), *members)
        assert group in driver.list_groups()
        assert driver.describe_group(group) == Group("Stable", "range", 2)
        assert driver.group_offsets(group, topic) == {}
        (holder,) = [member for member in members if (topic, 1) in member.assigned]
        holder.read(5)
        holder.commit(offsets=[(topic, 1, 4, "")])
        assert driver.group_offsets(group, topic) == {1: 4}
    assert driver.describe_group(group).state == "Empty"


@each_driver("set_group_offsets", "delete_group")
def test_offsets_are_set_and_groups_deleted_once_nobody_is_in_them(
    driver: Driver, hosts: Hosts, topic: str, group: str
) -> None:
    member = hosts["confluent"].join(group, topic)
    with leaving(member):
        member.read(5)
        member.commit()
        with pytest.raises(Refused) as refused:
            driver.delete_group(group)
        assert refused.value.code == NON_EMPTY_GROUP
    driver.set_group_offsets(group, topic, {0: 0, 1: 3})
    assert driver.group_offsets(group, topic) == {0: 0, 1: 3}
    following = hosts["confluent"].join(group, topic)
    with leaving(following):
        assert [row.offset for row in following.read(2)] == [3, 4]
    driver.delete_group(group)
    assert group not in driver.list_groups()
    with pytest.raises(Refused) as refused:
        driver.delete_group(group)
    assert refused.value.code == GROUP_ID_NOT_FOUND
