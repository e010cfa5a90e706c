"""The new group protocol (KIP-848), in which the broker assigns: confluent-kafka and the Java client."""

from __future__ import annotations

import time
import uuid

import pytest

from tests.compatibility.conftest import Hosts, NewTopic
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import Refused
from tests.compatibility.members import Host, Member, each_host, leaving, places_of, settled, until
from tests.compatibility.test_groups import fill, named

CONSUMER = "consumer"


def join(host: Host, group: str, *topics: str, pattern: str | None = None, assignor: str | None = None) -> Member:
    return host.join(group, *topics, pattern=pattern, protocol=CONSUMER, assignor=assignor)


@each_host("consumer")
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_broker_shares_the_partitions_among_members(
    host: Host, seed: Driver, new_topic: NewTopic, group: str, assignor: str
) -> None:
    topic, other = new_topic(partitions=4), new_topic(partitions=4)
    sent = fill(seed, topic, *range(4))
    first = join(host, group, topic, other, assignor=assignor)
    with leaving(first):
        settled(places_of(topic, 4) | places_of(other, 4), first)
        assert first.values(4) == sent
        second = join(host, group, topic, other, assignor=assignor)
        with leaving(second):
            settled(places_of(topic, 4) | places_of(other, 4), first, second)
            given_up = set().union(*(places for kind, places in first.events if kind == "revoked"))
            assert given_up == second.assigned, "what was not to move did not stay"
            if assignor == "range":  # The same numbers of both topics, so that they can be joined.
                numbers = [{place[1] for place in second.assigned if place[0] == name} for name in (topic, other)]
                assert numbers[0] == numbers[1]
        settled(places_of(topic, 4) | places_of(other, 4), first)


@each_host("consumer")
def test_offsets_are_committed_and_read_on_from(host: Host, seed: Driver, topic: str, group: str) -> None:
    fill(seed, topic, 0, count=5)
    first = join(host, group, topic)
    with leaving(first):
        first.read(5)
        first.commit()
        first.commit("async", [(topic, 0, 3, "here")])
        assert first.committed(topic) == (3, "here")
        first.seek(topic, 0, 1)
        assert [row.offset for row in first.read(4)] == [1, 2, 3, 4]
        first.pause([(topic, 0)])
        fill(seed, topic, 0)
        first.resume([(topic, 0)])
        assert [row.offset for row in first.read(1)] == [5]
    second = join(host, group, topic)
    with leaving(second):
        assert [row.offset for row in second.read(3)] == [3, 4, 5]


@each_host("consumer")
def test_the_broker_matches_patterns(host: Host, seed: Driver, group: str) -> None:
    prefix = f"r-{uuid.uuid4().hex[:8]}"
    named(seed, prefix, ".a", ".bb", ".no-1")
    member = join(host, group, pattern=rf"^{prefix}\.[[:alpha:]]+$")  # A class that is RE2's, not Java's.
    with leaving(member):
        settled({(f"{prefix}.a", 0), (f"{prefix}.bb", 0)}, member)
        named(seed, prefix, ".c")
        settled({(f"{prefix}{end}", 0) for end in (".a", ".bb", ".c")}, member)


@each_host("consumer")
def test_a_static_member_comes_back_to_its_partitions(host: Host, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=4)
    other = join(host, group, topic)
    static = host.join(group, topic, protocol=CONSUMER, assignor=None, instance="static")
    with leaving(other):
        settled(places_of(topic, 4), other, static)
        held, seen = static.assigned, list(other.events)
        static.leave()
        back = host.join(group, topic, protocol=CONSUMER, assignor=None, instance="static")
        with leaving(back):
            until(lambda: back.assigned == held, back)
            other.look()
            assert other.events == seen


@pytest.mark.timeout(180)
def test_members_take_over_from_one_that_crashes(hosts: Hosts, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=4)
    names = ("confluent", "java")
    others = {name: join(hosts[name], f"{group}-{name}", topic) for name in names}
    doomed = {name: hosts.another(name) for name in names}
    try:
        with leaving(*others.values()):
            for name, host in doomed.items():
                settled(places_of(topic, 4), others[name], join(host, f"{group}-{name}", topic))
            for host in doomed.values():
                host.kill()
            killed = time.monotonic()
            for member in others.values():
                settled(places_of(topic, 4), member)
            assert time.monotonic() - killed < 15
    finally:
        for host in doomed.values():
            host.close()


def test_both_clients_share_one_group(hosts: Hosts, seed: Driver, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=6)
    members = [join(hosts[name], group, topic) for name in ("confluent", "java", "confluent")]
    with leaving(*members):
        settled(places_of(topic, 6), *members)
        sent = fill(seed, topic, *range(6))
        until(lambda: sum(len(member.rows) for member in members) >= 6, *members)
        assert sorted(row.value for member in members for row in member.rows) == sent


@pytest.mark.timeout(180)
def test_a_live_group_moves_to_the_new_protocol_and_back(
    hosts: Hosts, seed: Driver, new_topic: NewTopic, group: str
) -> None:
    """One member after the other is replaced while records flow; the group's offsets go with it."""
    topic = new_topic(partitions=6)
    everything = places_of(topic, 6)
    replacements = [
        ("confluent", "consumer"),
        ("kafka-python", "classic"),  # It stays in the group of the new protocol, a classic member among others.
        ("java", "consumer"),
        ("confluent", "classic"),
        ("java", "classic"),
    ]
    members = [hosts[name].join(group, topic) for name in ("java", "confluent", "aiokafka")]
    try:
        settled(everything, *members)
        for turn, (name, protocol) in enumerate(replacements):
            fill(seed, topic, *range(6))
            until(lambda turn=turn: read_by(members, turn) == set(range(6)), *members)  # type: ignore[misc]
            commit_of(members, turn + 1, topic)
            members.pop(0).leave()
            assignor = "range" if protocol == "classic" else None
            members.append(hosts[name].join(group, topic, protocol=protocol, assignor=assignor))
            settled(everything, *members)
        assert [members[-1].committed(topic, partition) for partition in range(6)] == [(len(replacements), "")] * 6
    finally:
        for member in members:
            member.leave()


def read_by(members: list[Member], offset: int) -> set[int]:
    """The partitions that any of them read as far as this."""
    return {row.partition for member in members for row in member.rows if row.offset >= offset}


def commit_of(members: list[Member], offset: int, topic: str) -> None:
    """Have each member commit what it holds; one of a group that moves may first have to hear of its new generation."""
    deadline = time.monotonic() + 10
    for member in members:
        while True:
            try:
                member.look()
                member.commit(offsets=[(*place, offset, "") for place in sorted(member.assigned)])
                break
            except Refused:
                assert time.monotonic() < deadline
                time.sleep(0.1)
