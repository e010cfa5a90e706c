"""millstream.Consumer in a group: sharing, committing as promised, and what Admin shows of it."""

from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import millstream
from millstream import Admin, Consumer, Producer, TopicPartition
from tests.compatibility.conftest import NewTopic
from tests.system.running_members import eventually

RECORDS = 30
#: A member that was killed is missed after this long; see ``HASTE`` in conftest.
QUICK = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


def fill(bootstrap: str, topic: str, count: int = RECORDS, *, partitions: int = 1) -> None:
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, str(number), partition=number % partitions)


def test_a_group_goes_on_where_it_left_off(bootstrap: str, topic: str, group: str) -> None:
    fill(bootstrap, topic)
    with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
        assert [record.offset for record in consumer.records(limit=10)] == list(range(10))
    with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
        assert [record.offset for record in consumer.records(limit=20)] == list(range(10, 30))


def test_at_least_once_commits_a_record_when_the_loop_comes_back(bootstrap: str, topic: str, group: str) -> None:
    """The third record's processing fails: it is handed out again, and those before it are not."""
    fill(bootstrap, topic)
    with pytest.raises(ZeroDivisionError), Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
        for record in consumer:
            if record.offset == 2:
                raise ZeroDivisionError
    with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
        assert next(iter(consumer)).offset == 2


def test_at_most_once_commits_a_record_before_it_is_handed_out(bootstrap: str, topic: str, group: str) -> None:
    fill(bootstrap, topic)
    with Consumer(topic, bootstrap=bootstrap, group=group, delivery="at_most_once") as consumer:
        first = next(iter(consumer))
        committed = consumer.committed()[first.topic_partition]
        assert first.offset == 0 < committed
    with Consumer(topic, bootstrap=bootstrap, group=group, delivery="at_most_once") as consumer:
        assert [record.offset for record in consumer.records(idle_s=4)] == list(range(committed, RECORDS))


def test_exactly_once_commits_nothing_by_itself(bootstrap: str, topic: str, group: str) -> None:
    fill(bootstrap, topic)
    with Consumer(topic, bootstrap=bootstrap, group=group, delivery="exactly_once") as consumer:
        assert len(list(consumer.records(limit=10))) == 10
        assert consumer.committed() == {}


def test_commits_by_hand(bootstrap: str, topic: str, group: str) -> None:
    fill(bootstrap, topic)
    tp = TopicPartition(topic, 0)
    with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
        records = list(consumer.records(limit=10))
        consumer.commit(records[4])
        assert consumer.committed() == {tp: 5}
        consumer.commit()
        assert consumer.committed() == {tp: 10}
        consumer.commit_offsets({tp: 3})
        assert consumer.committed() == {tp: 3}
        assert (consumer.positions(), consumer.lag()) == ({tp: 10}, {tp: 20})
        for _ in consumer.records(limit=1):
            consumer.commit(wait=False)
    with Admin(bootstrap) as admin:
        assert admin.group_offsets(group) == {tp: 11}


def test_a_group_that_left_nothing_begins_where_it_was_asked_to(bootstrap: str, topic: str, group: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number), timestamp=at + timedelta(seconds=number))
    with Consumer(topic, bootstrap=bootstrap, group=group, start=at + timedelta(seconds=7)) as consumer:
        assert [record.offset for record in consumer.records(limit=1)] == [7]
    with Consumer(topic, bootstrap=bootstrap, group=group, start=2) as consumer:
        assert [record.offset for record in consumer.records(limit=2)] == [8, 9]
    with Consumer(topic, bootstrap=bootstrap, group=f"{group}-2", start=4) as consumer:
        assert next(iter(consumer)).offset == 4


def test_two_members_share_the_partitions_and_lose_nothing(bootstrap: str, new_topic: NewTopic, group: str) -> None:
    """The second comes while the first is reading, and goes again: each record is processed, most of them once."""
    topic = new_topic(partitions=4)
    seen: list[tuple[int, int]] = []
    assigned: list[set[TopicPartition]] = []
    first = Consumer(topic, bootstrap=bootstrap, group=group, on_assign=assigned.append, config=QUICK)

    def read() -> None:
        for record in first:
            seen.append((record.partition, record.offset))

    reader = threading.Thread(target=read)
    reader.start()
    fill(bootstrap, topic, 100, partitions=4)
    with Consumer(topic, bootstrap=bootstrap, group=group, config=QUICK) as second:
        deadline_s = time.monotonic() + 30
        while len(second.assignment()) != 2:
            if (record := second.poll(0.1)) is not None:
                seen.append((record.partition, record.offset))
            assert time.monotonic() < deadline_s
        fill(bootstrap, topic, 100, partitions=4)
        seen += [(record.partition, record.offset) for record in second.records(limit=50)]
        assert len(assigned[-1]) == 2
    fill(bootstrap, topic, 100, partitions=4)
    deadline_s = time.monotonic() + 30
    wanted = {(partition, offset) for partition in range(4) for offset in range(75)}
    while set(seen) != wanted:
        assert time.monotonic() < deadline_s, wanted - set(seen)
        time.sleep(0.05)
    first.stop()
    reader.join()
    first.close()
    assert max(len(one) for one in assigned) == 4


@pytest.mark.parametrize(
    "settings",
    [{"partition.assignment.strategy": "cooperative-sticky"}, {"group.protocol": "consumer"}],
    ids=["cooperative", "consumer protocol"],
)
def test_other_protocols_need_but_a_setting(bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> None:
    fill(bootstrap, topic)
    with Consumer(topic, bootstrap=bootstrap, group=group, start=3, config=settings) as consumer:
        assert [record.offset for record in consumer.records(limit=5)] == [3, 4, 5, 6, 7]
    with Consumer(topic, bootstrap=bootstrap, group=group, start=3, config=settings) as consumer:
        assert next(iter(consumer)).offset == 8


def test_a_pattern_subscribes_to_its_topics(bootstrap: str, new_topic: NewTopic, group: str) -> None:
    one, other = new_topic(), new_topic()
    fill(bootstrap, one, 1)
    fill(bootstrap, other, 1)
    with Consumer(re.compile(f"{one}|{other}"), bootstrap=bootstrap, group=group) as consumer:
        assert {record.topic for record in consumer.records(limit=2)} == {one, other}


def test_a_slow_loop_still_attends_to_its_group(bootstrap: str, topic: str, group: str) -> None:
    """Fetched far ahead, a loop that is slower than ``max.poll.interval.ms`` in all but not for each stays a member."""
    fill(bootstrap, topic, 12)
    hasty = {"max.poll.interval.ms": 6_000, "session.timeout.ms": 6_000}
    revoked: list[set[TopicPartition]] = []
    with Consumer(topic, bootstrap=bootstrap, group=group, config=hasty, on_revoke=revoked.append) as consumer:
        for record in consumer.records(limit=12):
            time.sleep(0.6)
            assert revoked == [], record
    with Admin(bootstrap) as admin:
        assert admin.group_lag(group) == {TopicPartition(topic, 0): 0}


def test_a_group_is_listed_described_reset_and_deleted(bootstrap: str, topic: str, group: str) -> None:
    fill(bootstrap, topic)
    tp = TopicPartition(topic, 0)
    with Admin(bootstrap) as admin:
        with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
            assert len(list(consumer.records(limit=RECORDS))) == RECORDS
            consumer.commit()
            assert [(row.state, row.type) for row in admin.groups() if row.name == group] == [("stable", "classic")]
            found = admin.describe_group(group)
            assert (found.state, [member.partitions for member in found.members]) == ("stable", [[tp]])
            with pytest.raises(millstream.GroupInUse, match="stop its consumers first"):
                admin.delete_group(group)
        assert admin.group_lag(group) == {tp: 0}
        assert admin.reset_offsets(group, topic, "earliest") == {tp: 0}
        assert admin.group_lag(group) == {tp: RECORDS}
        assert admin.reset_offsets(group, topic, 12, partitions=[0]) == {tp: 12}
        with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
            assert next(iter(consumer)).offset == 12
        admin.delete_group(group)
        assert group not in {row.name for row in admin.groups()}
        with pytest.raises(millstream.UnknownGroup):
            admin.delete_group(group)
        with pytest.raises(millstream.UnknownGroup, match="there is no group"):
            admin.describe_group(group)


def test_a_group_that_has_read_all_there_is_has_no_lag(bootstrap: str, topic: str, group: str) -> None:
    """Behind its offset lie only a commit's marker, an aborted record and an abort's marker."""
    tp = TopicPartition(topic, 0)
    with Admin(bootstrap) as admin, Producer(bootstrap, transactional_id=group) as producer:
        with producer.transaction():
            producer.send(topic, b"one")
        with Consumer(topic, bootstrap=bootstrap, group=group) as consumer:
            assert len(list(consumer.records(limit=1))) == 1
        with producer.transaction() as transaction:
            producer.send(topic, b"never").result()
            assert admin.group_lag(group) == {tp: 1}
            transaction.abort()
        eventually(lambda: admin.group_lag(group) == {tp: 0})  # Markers may come a moment after the answer.
        assert admin.group_offsets(group) == {tp: 1}
        with producer.transaction():
            producer.send(topic, b"two")
        eventually(lambda: admin.group_lag(group) == {tp: 2})
