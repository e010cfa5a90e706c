"""Classic groups, each behaviour once over all clients: who holds what, who comes and goes, where they go on."""

from __future__ import annotations

import time
import uuid

import pytest

from tests.compatibility.conftest import Hosts, NewTopic
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import Record, Refused
from tests.compatibility.members import HOSTS, Host, Member, each_host, leaving, places_of, settled, until

FENCED_INSTANCE_ID, FATAL, NOT_A_MEMBER = 82, -150, -1
#: A client whose heartbeat was told already only says that it is no member; aiokafka, which commits without its
#: instance's name, never hears more.
FENCED = {
    "confluent": {FENCED_INSTANCE_ID, FATAL},
    "kafka-python": {FENCED_INSTANCE_ID, NOT_A_MEMBER},
    "aiokafka": {NOT_A_MEMBER},
    "java": {FENCED_INSTANCE_ID, NOT_A_MEMBER},
}
CRASH_SESSION_MS = 3_000


def fill(seed: Driver, topic: str, *partitions: int, count: int = 1) -> list[str]:
    """Values that tell where they are, to these partitions; in order."""
    for partition in partitions:
        seed.produce(topic, [Record(b"%d:%d" % (partition, i)) for i in range(count)], partition=partition)
    return sorted(f"{partition}:{i}" for partition in partitions for i in range(count))


@each_host()
def test_members_share_the_partitions_and_take_over_from_one_that_leaves(
    host: Host, seed: Driver, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=4)
    sent = fill(seed, topic, *range(4))
    first = host.join(group, topic, auto_commit=True)
    with leaving(first):
        settled(places_of(topic, 4), first)
        assert first.values(4) == sent
        second = host.join(group, topic, auto_commit=True)
        with leaving(second):
            settled(places_of(topic, 4), first, second)
        settled(places_of(topic, 4), first)
        fill(seed, topic, *range(4))
        until(lambda: len({row.partition for row in first.rows if row.offset == 1}) == 4, first)


@each_host()
def test_what_a_member_read_it_commits_when_it_leaves(
    host: Host, seed: Driver, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    fill(seed, topic, 0, 1, count=3)
    first = host.join(group, topic, auto_commit=True)
    with leaving(first):
        first.read(6)
    fill(seed, topic, 1)
    second = host.join(group, topic)
    with leaving(second):
        assert second.read(1) == [(topic, 1, 3, "1:0")]


@pytest.mark.timeout(180)
def test_members_take_over_from_one_that_crashes(hosts: Hosts, new_topic: NewTopic, group: str) -> None:
    """All clients at once, a group each, for each waits for a session to end."""
    topic = new_topic(partitions=4)
    others = {name: hosts[name].join(f"{group}-{name}", topic, session_ms=CRASH_SESSION_MS) for name in HOSTS}
    doomed = {name: hosts.another(name) for name in HOSTS}
    try:
        with leaving(*others.values()):
            for name, host in doomed.items():
                crashing = host.join(f"{group}-{name}", topic, session_ms=CRASH_SESSION_MS)
                settled(places_of(topic, 4), others[name], crashing)
            for host in doomed.values():
                host.kill()
            killed = time.monotonic()
            for member in others.values():
                settled(places_of(topic, 4), member)
            assert time.monotonic() - killed < CRASH_SESSION_MS / 1000 + 10
    finally:
        for host in doomed.values():
            host.close()


@each_host("static")
def test_a_static_member_that_comes_back_is_given_its_partitions_without_a_rebalance(
    host: Host, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=4)
    other, static = host.join(group, topic, instance="other"), host.join(group, topic, instance="static")
    with leaving(other):
        settled(places_of(topic, 4), other, static)
        held, seen = static.assigned, list(other.events)
        static.leave()
        back = host.join(group, topic, instance="static")
        with leaving(back):
            until(lambda: back.assigned == held, back)
            other.look()
            assert other.events == seen


@each_host("static", "commit")
def test_the_older_of_two_members_of_one_instance_is_fenced(host: Host, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    older = host.join(group, topic, instance="one")
    settled(places_of(topic, 2), older)
    newer = host.join(group, topic, instance="one")
    with leaving(newer, older):
        settled(places_of(topic, 2), newer)
        with pytest.raises(Refused) as refused:
            older.commit(offsets=[(topic, 0, 0, "")])
        assert refused.value.code in FENCED[host.name]


@each_host("cooperative")
def test_a_cooperative_member_gives_up_only_what_another_is_to_have(
    host: Host, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=4)
    first = host.join(group, topic, assignor="cooperative-sticky")
    with leaving(first):
        settled(places_of(topic, 4), first)
        second = host.join(group, topic, assignor="cooperative-sticky")
        with leaving(second):
            settled(places_of(topic, 4), first, second)
            given_up = [places for kind, places in first.events if kind == "revoked" and places]
            assert given_up == [second.assigned]


@each_host("commit")
def test_a_commit_names_offset_and_metadata(host: Host, seed: Driver, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    fill(seed, topic, 0, 1, count=5)
    member = host.join(group, topic)
    with leaving(member):
        member.read(10)
        assert member.committed(topic) is None
        member.commit()
        assert [member.committed(topic, partition) for partition in (0, 1)] == [(5, ""), (5, "")]
        member.commit(offsets=[(topic, 1, 2, "as far as here")])
        assert [member.committed(topic, partition) for partition in (0, 1)] == [(5, ""), (2, "as far as here")]
    following = host.join(group, topic)
    with leaving(following):
        assert [row.offset for row in following.read(3)] == [2, 3, 4]


@each_host("async")
def test_a_commit_that_is_not_waited_for_is_answered_in_time(host: Host, seed: Driver, topic: str, group: str) -> None:
    fill(seed, topic, 0, count=3)
    member = host.join(group, topic)
    with leaving(member):
        member.read(3)
        member.commit("async")
        assert member.committed(topic) == (3, "")
        member.commit("async", [(topic, 0, 1, "back")])
        assert member.committed(topic) == (1, "back")


@each_host("seek")
def test_a_member_reads_on_from_where_it_seeks(host: Host, seed: Driver, topic: str, group: str) -> None:
    fill(seed, topic, 0, count=5)
    member = host.join(group, topic)
    with leaving(member):
        assert [row.offset for row in member.read(5)] == [0, 1, 2, 3, 4]
        member.seek(topic, 0, 2)
        assert [row.offset for row in member.read(3)] == [2, 3, 4]


@each_host("pause")
def test_a_paused_partition_rests_while_others_go_on(host: Host, seed: Driver, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    fill(seed, topic, 0, 1)
    member = host.join(group, topic)
    with leaving(member):
        member.read(2)
        member.pause([(topic, 0)])
        fill(seed, topic, 0, 1)
        assert member.read(1) == [(topic, 1, 1, "1:0")]
        fill(seed, topic, 1)
        assert member.read(1) == [(topic, 1, 2, "1:0")]
        assert (topic, 0) in member.assigned
        member.resume([(topic, 0)])
        assert member.read(1) == [(topic, 0, 1, "0:0")]


def named(seed: Driver, prefix: str, *ends: str) -> None:
    for end in ends:
        seed.create_topic(prefix + end)


@each_host("regex")
def test_a_pattern_subscribes_to_the_topics_that_match(host: Host, seed: Driver, group: str) -> None:
    prefix = f"r-{uuid.uuid4().hex[:8]}"
    named(seed, prefix, ".a", ".b", "-no")
    member = host.join(group, pattern=rf"^{prefix}\..*")
    with leaving(member):
        settled({(f"{prefix}.a", 0), (f"{prefix}.b", 0)}, member)
        if "follow" in host.abilities:
            named(seed, prefix, ".c")
            settled({(f"{prefix}{end}", 0) for end in (".a", ".b", ".c")}, member)


@pytest.mark.timeout(180)
def test_members_of_all_clients_share_one_group(hosts: Hosts, seed: Driver, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=12)
    members: list[Member] = []
    try:
        for name in HOSTS:
            members.append(hosts[name].join(group, topic, auto_commit=True))
            settled(places_of(topic, 12), *members)
        sent = fill(seed, topic, *range(12))
        until(lambda: sum(len(member.rows) for member in members) >= 12, *members)
        assert sorted(row.value for member in members for row in member.rows) == sent
        while len(members) > 1:
            members.pop(0).leave()
            settled(places_of(topic, 12), *members)
    finally:
        for member in members:
            member.leave()
