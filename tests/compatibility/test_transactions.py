"""Transactions in every client that has them: what readers see, offsets that go with them, zombies, time-outs."""

from __future__ import annotations

import subprocess
import uuid

import pytest

from tests.compatibility.conftest import Hosts, NewTopic
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import LATEST, Record, Refused
from tests.compatibility.members import HOSTS, Host, Producer, each_host, leaving, settled, until

INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED = 47, 48, 90
#: What a client says to a zombie differs; that it says no does not.
FENCED = {
    "confluent": {-144, -150, -172},  # librdkafka's own: fenced, fatal, in a wrong state
    "kafka-python": {INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED},
    "aiokafka": {-1},  # its own, without a number
    "kafkajs": {INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED},
    "java": {INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED},
}
COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@pytest.fixture
def transactional_id() -> str:
    return f"x-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def reader(hosts: Hosts) -> Host:
    """The client that sees what another one wrote."""
    return hosts["confluent"]


def visible(reader: Host, topic: str, isolation: str, count: int) -> list[str]:
    """What a new member reads of a topic of one partition, as far as ``count`` records."""
    member = reader.join(f"g-{uuid.uuid4().hex[:12]}", topic, isolation=isolation)
    with leaving(member):
        return [row.value for row in member.read(count)]


@each_host("transactions")
def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
    host: Host, reader: Host, seed: Driver, new_topic: NewTopic, transactional_id: str
) -> None:
    topic, other = new_topic(), new_topic()
    producer = Producer(host, transactional_id)
    for end, values in ((producer.commit, "ab"), (producer.abort, "cd"), (producer.commit, "ef")):
        producer.begin()
        producer.send(topic, *values)
        producer.send(other, values)
        end()
    seed.produce(topic, [Record(b"last")])
    assert visible(reader, topic, COMMITTED, 5) == ["a", "b", "e", "f", "last"]
    assert visible(reader, topic, UNCOMMITTED, 7) == ["a", "b", "c", "d", "e", "f", "last"]
    assert visible(reader, other, COMMITTED, 2) == ["ab", "ef"]
    assert seed.list_offset(topic, LATEST) == 10  # A marker ends each transaction.


@pytest.fixture(scope="session")
def ended(hosts: Hosts, new_topic: NewTopic) -> str:
    """A topic of committed and aborted records that lie in each other's midst, and an open transaction at its end."""
    topic = new_topic()
    one, other = (Producer(hosts["java"], f"x-{uuid.uuid4().hex[:12]}") for _ in range(2))
    for turn in range(3):
        one.begin()
        other.begin()
        one.send(topic, f"good {turn}")
        other.send(topic, f"bad {turn}")
        one.send(topic, f"good again {turn}")
        one.commit()
        other.send(topic, f"bad again {turn}")
        other.abort()
    one.begin()
    one.send(topic, "open")
    return topic


@each_host()
def test_each_client_reads_committed_records_as_far_as_the_first_open_transaction(
    host: Host, seed: Driver, ended: str
) -> None:
    seed.produce(ended, [Record(b"behind")])
    seen = visible(host, ended, COMMITTED, 6)
    assert seen == [value for turn in range(3) for value in (f"good {turn}", f"good again {turn}")]
    everything = host.join(f"g-{uuid.uuid4().hex[:12]}", ended, isolation=UNCOMMITTED)
    with leaving(everything):
        until(lambda: any(row.value == "behind" for row in everything.rows), everything)
        read = [row.value for row in everything.rows]
        assert "open" in read and [value for value in read if value.startswith("good")] == seen


@pytest.mark.parametrize(
    ("host", "protocol"),
    [
        (host.name, protocol)
        for host in HOSTS.values()
        for protocol in ("classic", "consumer")
        if host.abilities.issuperset({"transactions"} | ({protocol} - {"classic"}))
    ],
    indirect=["host"],
)
def test_consume_transform_produce(
    host: Host, protocol: str, reader: Host, seed: Driver, new_topic: NewTopic, group: str, transactional_id: str
) -> None:
    """Offsets move with the transaction that carries them, and only with it."""
    source, sink = new_topic(), new_topic()
    seed.produce(source, [Record(b"%d" % i) for i in range(4)])
    producer = Producer(host, transactional_id)
    member = host.join(group, source, protocol=protocol)
    with leaving(member):
        rows = member.read(4)
        for end, position in ((producer.commit, 2), (producer.abort, 4)):
            producer.begin()
            producer.send(sink, *(f"{row.value}!" for row in rows[position - 2 : position]))
            producer.send_offsets(member, (source, 0, position))
            end()
            until(lambda: member.committed(source) == (2, ""))  # Old clients are told before the marker is written.
    following = host.join(group, source, protocol=protocol)
    with leaving(following):
        rows = following.read(2)
        producer.begin()
        producer.send(sink, *(f"{row.value}!" for row in rows))
        producer.send_offsets(following, (source, 0, 4))
        producer.commit()
        until(lambda: following.committed(source) == (4, ""))
    assert visible(reader, sink, COMMITTED, 4) == ["0!", "1!", "2!", "3!"]


@each_host("transactions")
def test_a_zombie_is_fenced_by_the_next_producer_of_its_id(
    host: Host, reader: Host, seed: Driver, topic: str, transactional_id: str
) -> None:
    zombie = Producer(host, transactional_id)
    zombie.begin()
    zombie.send(topic, "of the zombie")
    heir = Producer(host, transactional_id)
    heir.begin()
    with pytest.raises(Refused) as refused:
        zombie.send(topic, "too late")
        zombie.commit()
    assert refused.value.code in FENCED[host.name], refused.value
    heir.send(topic, "of the heir")
    heir.commit()
    assert visible(reader, topic, COMMITTED, 1) == ["of the heir"]


@each_host("transactions")
def test_a_transaction_that_takes_too_long_is_aborted(
    host: Host, reader: Host, seed: Driver, topic: str, transactional_id: str
) -> None:
    producer = Producer(host, transactional_id, timeout_ms=1_000)
    producer.begin()
    producer.send(topic, "too slow")
    seed.produce(topic, [Record(b"behind")])
    assert visible(reader, topic, COMMITTED, 1) == ["behind"]
    with pytest.raises(Refused):
        producer.commit()


def test_a_kcat_writes_its_input_in_one_transaction(
    bootstrap: str, hosts: Hosts, reader: Host, topic: str, transactional_id: str
) -> None:
    assert hosts["kcat"].name == "kcat"
    command = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-p", "0", "-X", f"transactional.id={transactional_id}"]
    subprocess.run(command, input="a\nb\n", text=True, check=True, timeout=60, capture_output=True)
    assert visible(reader, topic, COMMITTED, 2) == ["a", "b"]


def test_members_of_several_clients_see_the_end_of_a_transaction_at_once(
    hosts: Hosts, topic: str, group: str, transactional_id: str
) -> None:
    producer = Producer(hosts["confluent"], transactional_id)
    members = [hosts[name].join(f"{group}-{name}", topic, isolation=COMMITTED) for name in HOSTS]
    with leaving(*members):
        for member in members:
            settled({(topic, 0)}, member)
        producer.begin()
        producer.send(topic, "now")
        for member in members:
            member.look()
            assert member.rows == []
        producer.commit()
        for member in members:
            assert member.read(1) == [(topic, 0, 0, "now")]
