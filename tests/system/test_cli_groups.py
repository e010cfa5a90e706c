"""The group commands against a running broker and real consumers."""

import json
import os
import signal
import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.system.command import Millstream
from tests.system.running_members import Members, eventually

#: How old the records are that a test lags behind.
AGE_S = 1_000
RECORDS = 10
#: So that a rebalance by the consumer protocol takes a second and not ten.
BROKER_SETTINGS = {
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture
def filled(millstream: Millstream, topic: str) -> str:
    """The test's topic, with ten records of some age in each of its three partitions."""
    producer = Producer({"bootstrap.servers": millstream.bootstrap, "linger.ms": 20})
    written_ms = int((time.time() - AGE_S) * 1000)
    for number in range(RECORDS):
        for partition in range(3):
            producer.produce(topic, f"value {number}", partition=partition, timestamp=written_ms + number * 1000)
    assert producer.flush(30) == 0
    return topic


@pytest.fixture
def group() -> str:
    return f"group-{os.urandom(4).hex()}"


def commit(millstream: Millstream, group: str, topic: str, offsets: dict[int, int], note: str = "") -> None:
    """Commit for a group without members."""
    consumer = Consumer({"bootstrap.servers": millstream.bootstrap, "group.id": group})
    places = [TopicPartition(topic, partition, offset, metadata=note) for partition, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def described(millstream: Millstream, group: str) -> dict[str, Any]:
    [document] = millstream("group", "describe", group, "-o", "json").document
    assert isinstance(document, dict)
    return document


def offsets_of(millstream: Millstream, group: str) -> dict[int, int]:
    """What the group has committed, of its one topic."""
    rows = described(millstream, group)["partitions"]
    return {row["partition"]: row["current_offset"] for row in rows if row["current_offset"] is not None}


@PROTOCOLS
def test_a_group_at_work_is_listed_and_described(
    millstream: Millstream, filled: str, group: str, protocol: str
) -> None:
    with Members(millstream.bootstrap, group, filled, 2, 3, protocol) as members:
        members.commit({0: 4, 1: RECORDS}, filled)
        eventually(lambda: described(millstream, group)["state"] == "Stable")
        [listed] = millstream("group", "list", group, "-o", "json").document
        document = described(millstream, group)
        shown = millstream("group", "describe", group).output
        per_member = millstream("group", "describe", group, "--members").output
    assert (listed["protocol"], listed["state"], listed["members"]) == (protocol, "Stable", 2)
    assert (document["protocol"], document["protocol_type"]) == (protocol, "consumer")
    assert document["assignor"]
    assert sorted(member["client_id"] for member in document["members"]) == ["client-0", "client-1"]
    rows = {row["partition"]: row for row in document["partitions"]}
    assert [rows[number]["current_offset"] for number in range(3)] == [4, RECORDS, None]
    assert [rows[number]["end_offset"] for number in range(3)] == [RECORDS] * 3
    assert [rows[number]["lag"] for number in range(3)] == [RECORDS - 4, 0, None]
    assert AGE_S - 4 <= rows[0]["lag_seconds"] < AGE_S + 60
    assert rows[1]["lag_seconds"] == 0
    assert document["lag"] == RECORDS - 4
    assert document["lag_seconds"] == rows[0]["lag_seconds"]
    assert {row["client_id"] for row in rows.values()} == {"client-0", "client-1"}
    assert all(row["member"] and row["host"] for row in rows.values())
    assert f"group {group}, {protocol} protocol, Stable" in shown
    assert document["never_committed"] == {"partitions": 1, "records": RECORDS}
    assert "2 members, 3 partitions, lag 6, 16m" in shown
    assert "behind + 1 partition never committed (10 records)" in shown
    assert "members without partitions" not in shown and "INSTANCE" not in shown
    assert f"{filled}:" in per_member and "client-1" in per_member


@PROTOCOLS
def test_members_without_partitions_are_shown(millstream: Millstream, filled: str, group: str, protocol: str) -> None:
    with Members(millstream.bootstrap, group, filled, 4, 3, protocol):
        eventually(lambda: len(described(millstream, group)["members"]) == 4)
        shown = millstream("group", "describe", group).output
        document = described(millstream, group)
    assert "members without partitions" in shown
    assert sorted(len(member["partitions"]) for member in document["members"]) == [0, 1, 1, 1]


@PROTOCOLS
def test_a_static_members_name_stands_where_its_partitions_are(
    millstream: Millstream, filled: str, group: str, protocol: str
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": millstream.bootstrap,
            "group.id": group,
            "group.instance.id": "till-7",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([filled])
    assert consumer.poll(30) is not None
    shown = millstream("group", "describe", group).output
    rows = described(millstream, group)["partitions"]
    consumer.close()
    assert "  INSTANCE  " in shown and shown.count("  till-7  ") == 3
    assert [row["instance"] for row in rows] == ["till-7"] * 3


@PROTOCOLS
def test_offsets_are_not_reset_nor_deleted_under_running_members(
    millstream: Millstream, filled: str, group: str, protocol: str
) -> None:
    with Members(millstream.bootstrap, group, filled, 1, 3, protocol) as members:
        members.commit({0: 4}, filled)
        refused = millstream("group", "reset-offsets", group, "--topic", filled, "--to-earliest", code=1)
        dry = millstream("group", "reset-offsets", group, "--topic", filled, "--to-earliest", "--dry-run")
        busy = millstream("group", "delete", group, code=1)
        subscribed = millstream("group", "delete-offsets", group, "--topic", filled, code=1)
        assert offsets_of(millstream, group) == {0: 4}
    assert f"group {group!r} is Stable with members (client-0 at 127.0.0.1); stop them" in refused.errors
    assert len(refused.errors.splitlines()) == 1
    assert "must be stopped" in dry.errors and "NEW-OFFSET" in dry.output
    assert "NON_EMPTY_GROUP" in busy.errors and "stop its members first" in busy.errors
    assert f"with: millstream group describe {group} --members\n" in busy.errors
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in subscribed.errors
    eventually(lambda: described(millstream, group)["state"] == "Empty")
    moved = millstream("group", "reset-offsets", group, "--topic", filled, "--to-offset", 7, "-o", "json")
    assert [row["new_offset"] for row in moved.document] == [7, 7, 7]
    assert offsets_of(millstream, group) == {0: 7, 1: 7, 2: 7}
    assert millstream("group", "delete", group).lines == [f"deleted {group}"]
    assert group not in millstream("group", "list", "-q").lines


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: RECORDS, 1: RECORDS}),
        (("--to-offset", "99"), {0: RECORDS, 1: RECORDS}),
        (("--shift-by", "-2"), {0: 3, 1: 6}),
        (("--shift-by", "-6"), {0: 0, 1: 2}),
        (("--to-current",), {0: 5, 1: 8}),
        (("--by-duration", f"{AGE_S + 60}s"), {0: 0, 1: 0}),
        (("--by-duration", "999999999d"), {0: 0, 1: 0}),
        (("--by-duration", "PT1M"), {0: RECORDS, 1: RECORDS}),
        (("--to-datetime", "2020-01-31T12:00:00Z"), {0: 0, 1: 0}),
    ],
)
def test_offsets_are_reset_to_where_they_are_wanted(
    millstream: Millstream, filled: str, group: str, place: tuple[str, ...], expected: dict[int, int]
) -> None:
    commit(millstream, group, filled, {0: 5, 1: 8})
    dry = millstream("group", "reset-offsets", group, "--all-topics", *place, "--dry-run", "-o", "json")
    assert {row["partition"]: row["new_offset"] for row in dry.document} == expected
    assert offsets_of(millstream, group) == {0: 5, 1: 8}
    millstream("group", "reset-offsets", group, "--all-topics", *place)
    assert offsets_of(millstream, group) == expected


def test_a_consumer_goes_on_from_where_its_group_was_reset(millstream: Millstream, filled: str, group: str) -> None:
    made = millstream("group", "reset-offsets", group, "--topic", f"{filled}:1", "--to-offset", 8)
    assert "there is no group" in made.errors and "this makes it" in made.errors
    consumer = Consumer({"bootstrap.servers": millstream.bootstrap, "group.id": group, "auto.offset.reset": "latest"})
    consumer.subscribe([filled])
    read = [message for message in consumer.consume(2, timeout=30) if message.error() is None]
    consumer.close()
    assert [(message.partition(), message.offset()) for message in read] == [(1, 8), (1, 9)]


def test_what_a_dry_run_printed_can_be_done_later(millstream: Millstream, filled: str, group: str) -> None:
    commit(millstream, group, filled, {0: 5, 1: 8})
    saved = millstream("group", "reset-offsets", group, "--all-topics", "--to-current", "--dry-run", "-o", "json")
    millstream("group", "reset-offsets", group, "--all-topics", "--to-latest")
    assert offsets_of(millstream, group) == {0: RECORDS, 1: RECORDS}
    millstream("group", "reset-offsets", group, "--from-file", "-", stdin=json.dumps(saved.document))
    assert offsets_of(millstream, group) == {0: 5, 1: 8}


def test_an_offset_beyond_the_log_is_brought_back_with_a_note(millstream: Millstream, filled: str, group: str) -> None:
    moved = millstream("group", "reset-offsets", group, "--topic", f"{filled}:0", "--to-offset", 99)
    assert "99 is past the end" in moved.output
    assert offsets_of(millstream, group) == {0: RECORDS}


def test_offsets_are_forgotten_topic_by_topic(millstream: Millstream, filled: str, group: str) -> None:
    commit(millstream, group, filled, {0: 5, 1: 8, 2: 9})
    millstream("group", "delete-offsets", group, "--topic", f"{filled}:1")
    assert offsets_of(millstream, group) == {0: 5, 2: 9}
    done = millstream("group", "delete-offsets", group, "--topic", filled)
    assert done.lines == [f"deleted the offset of {filled}-{number}" for number in (0, 2)]


def test_an_offset_that_is_not_there_is_not_said_to_be_forgotten(
    millstream: Millstream, filled: str, group: str
) -> None:
    commit(millstream, group, filled, {0: 5})
    refused = millstream("group", "delete-offsets", group, "--topic", f"{filled}:0,77", code=1)
    assert f"group {group!r} has no offset of {filled}-77; nothing was deleted" in refused.errors
    assert offsets_of(millstream, group) == {0: 5}


def test_offsets_in_a_file_are_of_partitions_there_are(millstream: Millstream, filled: str, group: str) -> None:
    words = ("group", "reset-offsets", group, "--from-file", "-")
    refused = millstream(*words, stdin=f"{filled},77,0", code=1)
    assert "take its line out of the file" in refused.errors


def test_a_note_left_with_an_offset_is_shown(millstream: Millstream, filled: str, group: str) -> None:
    commit(millstream, group, filled, {0: 5}, note="batch 17")
    [row] = described(millstream, group)["partitions"]
    assert row["metadata"].rstrip("\0") == "batch 17"
    assert "batch 17" in millstream("group", "describe", group, "--offsets").output


def test_offsets_of_a_topic_that_is_gone_do_not_spoil_the_rest(millstream: Millstream, filled: str, group: str) -> None:
    gone = f"gone-{os.urandom(4).hex()}"
    millstream("topic", "create", gone, "-p", 1)
    commit(millstream, group, gone, {0: 3})
    commit(millstream, group, filled, {0: 5})
    millstream("topic", "delete", gone)
    rows = {row["topic"]: row for row in described(millstream, group)["partitions"]}
    assert rows[filled]["lag"] == RECORDS - 5
    if gone in rows:  # A broker may forget the offsets of a deleted topic at once.
        assert (rows[gone]["end_offset"], rows[gone]["lag"]) == (None, None)


def test_groups_are_filtered_by_name_state_and_type(millstream: Millstream, filled: str, group: str) -> None:
    commit(millstream, group, filled, {0: 5})

    def names(*words: str) -> list[str]:
        return millstream("group", "list", *words, "-q").lines

    assert group in names() and group in names(f"{group[:-2]}*")
    assert group in names("--state", "empty,dead") and group not in names("--state", "Stable")
    assert group in names("--type", "classic") and group not in names("--type", "consumer")
    assert "'Stabel' is none of Stable" in millstream("group", "list", "--state", "Stabel", code=2).errors
    assert group in millstream("group", "describe", "--all", "--state").output


def test_one_unknown_group_does_not_hide_the_others(millstream: Millstream, filled: str, group: str) -> None:
    commit(millstream, group, filled, {0: 5})
    shown = millstream("group", "describe", "nobody-knows-it", group, code=1)
    assert f"group {group}" in shown.output
    assert "there is no group 'nobody-knows-it' (GROUP_ID_NOT_FOUND)" in shown.errors
    assert "millstream group list" in shown.errors
    refused = millstream("group", "delete", "nobody-knows-it", group, code=1)
    assert refused.lines == [f"deleted {group}"]
    assert "nobody-knows-it: there is no such group" in refused.errors
    assert millstream("group", "delete", "nobody-knows-it", "--if-exists").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--topic", "orders", "--by-duration", "soon"], "'soon' is not a duration; write it as 500ms, 90s"),
        (["--topic", "orders", "--to-datetime", "soon"], "'soon' is not a time; write 2026-01-31"),
        (["--topic", "orders:x", "--to-latest"], "'x' is not a list of partitions such as 0,3,7"),
        (["--topic", "orders"], "one of the arguments --to-earliest"),
        (["--to-latest"], "say which topics"),
        (["--all-topics", "--topic", "orders", "--to-latest"], "and not both"),
        (["--topic", "orders", "--by-duration", "-1h"], "leave the minus out, as in 1h"),
        (["--topic", "orders", "--from-file", "x"], "leave out --topic"),
    ],
)
def test_a_reset_that_is_not_said_clearly_is_a_misuse(millstream: Millstream, words: list[str], told: str) -> None:
    assert told in millstream("group", "reset-offsets", "billing", *words, code=2).errors


def test_a_group_goes_on_where_the_command_left_it(millstream: Millstream, filled: str, group: str) -> None:
    words = ("consume", filled, "-g", group, "-f", r"%p %o\n")
    first = millstream(*words, "-n", 5).lines
    assert len(first) == 5
    assert sum(offsets_of(millstream, group).values()) == 5
    rest = millstream(*words, "-e").lines
    everything = {f"{partition} {offset}" for partition in range(3) for offset in range(RECORDS)}
    assert len(first) + len(rest) == len(everything) and {*first, *rest} == everything
    assert millstream(*words, "-e").lines == []
    assert offsets_of(millstream, group) == dict.fromkeys(range(3), RECORDS)
    assert described(millstream, group)["members"] == []


def test_a_new_group_begins_where_it_is_told(millstream: Millstream, filled: str, group: str) -> None:
    assert len(millstream("consume", filled, "-g", group, "-o", "-2", "-e").lines) == 6
    assert "leave out -p or -g" in millstream("consume", filled, "-g", group, "-p", 0, code=2).errors
    assert "there is no topic" in millstream("consume", "no-such-topic", "-g", group, code=1).errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_leaves_its_group(
    millstream: Millstream, filled: str, group: str, number: signal.Signals
) -> None:
    with millstream.start("consume", filled, "-g", group) as command:
        assert command.stdout is not None
        assert all(command.stdout.readline() for _ in range(3 * RECORDS))
        command.send_signal(number)
        _, errors = command.communicate(timeout=30)
    assert (command.returncode, errors) == (128 + number, "")
    document = described(millstream, group)
    assert (document["state"], document["members"], document["lag"]) == ("Empty", [], 0)


def test_the_command_shares_a_group_with_other_consumers(millstream: Millstream, filled: str, group: str) -> None:
    """And leaves it on Ctrl-C, with what it printed committed."""
    with Members(millstream.bootstrap, group, filled, 1, 3, "classic"):
        command = millstream.start("consume", filled, "-g", group, "-f", r"%p %o\n")

        def shares() -> list[int]:
            return sorted(len(member["partitions"]) for member in described(millstream, group)["members"])

        eventually(lambda: shares() == [1, 2])
        assert command.stdout is not None
        printed = [command.stdout.readline().split() for _ in range(RECORDS)]
        command.send_signal(signal.SIGINT)
        output, errors = command.communicate(timeout=30)
        assert (command.returncode, errors) == (130, "")
        printed += [line.split() for line in output.splitlines()]
        eventually(lambda: shares() == [3])
        counts = Counter(int(partition) for partition, _ in printed)
        assert offsets_of(millstream, group) == counts
