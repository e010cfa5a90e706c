"""The topic, config and cluster commands against a running broker."""

import os

from tests.system.command import Millstream


def unused_name() -> str:
    return f"unused-{os.urandom(4).hex()}"


def partitions_of(millstream: Millstream, topic: str) -> int:
    [described] = millstream("topic", "describe", topic, "-o", "json").document
    return len(described["partitions"])


def settings_of(millstream: Millstream, topic: str) -> dict[str, str]:
    [described] = millstream("topic", "describe", topic, "-o", "json").document
    return {row["name"]: row["value"] for row in described["settings"] if row["source"] == "topic"}


def test_a_topic_is_made_listed_described_and_deleted(millstream: Millstream) -> None:
    name = unused_name()
    made = millstream("topic", "create", name, "-p", 4, "-r", 1, "-c", "retention.ms=86400000")
    assert made.lines == [f"created {name}"]
    rows = {row["name"]: row for row in millstream("topic", "list", "-o", "json").document}
    assert rows[name]["partitions"] == 4
    assert rows[name]["replicas"] == 1
    [described] = millstream("topic", "describe", name, "-o", "json").document
    assert [row["partition"] for row in described["partitions"]] == [0, 1, 2, 3]
    assert all(row["start_offset"] == row["end_offset"] == 0 for row in described["partitions"])
    assert settings_of(millstream, name) == {"retention.ms": "86400000"}
    assert millstream("topic", "delete", name).lines == [f"deleted {name}"]
    assert name not in millstream("topic", "list", "-q").lines


def test_a_topic_that_exists_is_refused_unless_that_is_fine(millstream: Millstream, topic: str) -> None:
    refused = millstream("topic", "create", topic, code=1)
    assert "TOPIC_ALREADY_EXISTS" in refused.errors
    assert "--if-not-exists" in refused.errors
    assert f"with: millstream topic describe {topic}\n" in refused.errors
    assert millstream("topic", "create", topic, "--if-not-exists").lines == [
        f"unchanged {topic} (TOPIC_ALREADY_EXISTS)"
    ]


def test_deleting_a_topic_that_is_not_there_is_refused_unless_that_is_fine(millstream: Millstream) -> None:
    name = unused_name()
    assert "millstream topic list" in millstream("topic", "delete", name, code=1).errors
    assert millstream("topic", "delete", name, "--if-exists").code == 0


def test_one_refusal_among_several_topics_does_not_hide_the_others(millstream: Millstream, topic: str) -> None:
    name = unused_name()
    outcome = millstream("topic", "create", topic, name, code=1)
    assert outcome.lines == [f"created {name}"]
    assert outcome.errors.startswith(f"millstream: {topic}: ")


def test_a_dry_run_makes_nothing(millstream: Millstream) -> None:
    name = unused_name()
    assert millstream("topic", "create", name, "--dry-run").lines == [f"could create {name}"]
    assert name not in millstream("topic", "list", "-q").lines


def test_a_bad_setting_is_refused_by_name(millstream: Millstream) -> None:
    refused = millstream("topic", "create", unused_name(), "-c", "retentio.ms=5", code=1)
    assert "retentio.ms" in refused.errors
    assert "INVALID_CONFIG" in refused.errors


def test_settings_are_changed_and_taken_back(millstream: Millstream, topic: str) -> None:
    millstream("topic", "alter", topic, "-c", "retention.ms=5000", "-c", "cleanup.policy=compact")
    assert settings_of(millstream, topic) == {"cleanup.policy": "compact", "retention.ms": "5000"}
    millstream("topic", "alter", topic, "-d", "retention.ms")
    assert settings_of(millstream, topic) == {"cleanup.policy": "compact"}
    millstream("config", "set", "topic", topic, "retention.bytes=1000000")
    rows = {row["name"]: row for row in millstream("config", "describe", "topic", topic, "-o", "json").document}
    assert rows["retention.bytes"] == {
        "name": "retention.bytes",
        "value": "1000000",
        "source": "topic",
        "read_only": False,
    }
    assert rows["cleanup.policy"]["source"] == "topic"
    assert rows["segment.bytes"]["source"] != "topic"
    millstream("config", "unset", "topic", topic, "retention.bytes", "cleanup.policy")
    assert settings_of(millstream, topic) == {}


def test_sizes_on_disk_are_shown_when_asked_for(millstream: Millstream, topic: str) -> None:
    millstream("produce", topic, "-p", 1, "-q", stdin="x" * 1000)
    [described] = millstream("topic", "describe", topic, "--sizes", "-o", "json").document
    sizes = [row["bytes"] for row in described["partitions"]]
    assert sizes[0] == sizes[2] == 0
    assert 1000 < sizes[1] < 1200
    assert millstream("topic", "describe", topic, "-s").lines[2].endswith("BYTES")


def test_nothing_to_change_is_a_misuse(millstream: Millstream, topic: str) -> None:
    assert "-c NAME=VALUE" in millstream("topic", "alter", topic, code=2).errors


def test_partitions_are_added_by_number_and_by_total(millstream: Millstream, topic: str) -> None:
    millstream("topic", "add-partitions", topic, "-n", 2)
    assert partitions_of(millstream, topic) == 5
    millstream("topic", "add-partitions", topic, "--total", 6)
    assert partitions_of(millstream, topic) == 6
    assert "INVALID_PARTITIONS" in millstream("topic", "add-partitions", topic, "--total", 2, code=1).errors


def test_a_listing_matches_a_pattern_and_prints_as_table_json_and_yaml(millstream: Millstream, topic: str) -> None:
    table = millstream("topic", "list", f"*{topic[-8:]}")
    assert table.lines[0].split() == ["NAME", "PARTITIONS", "REPLICAS", "UNDER-REPLICATED", "OFFLINE"]
    assert [line.split()[:2] for line in table.lines[1:]] == [[topic, "3"]]
    [row] = millstream("topic", "list", topic, "-o", "json").document
    assert row["name"] == topic
    assert f"- name: {topic}" in millstream("topic", "list", topic, "-o", "yaml").lines
    assert millstream("topic", "list", topic, "--under-replicated", "-q").lines == []


def test_a_topic_that_is_not_there_cannot_be_described(millstream: Millstream) -> None:
    refused = millstream("topic", "describe", unused_name(), code=1)
    assert "there is no topic" in refused.errors
    assert "millstream topic list" in refused.errors
    assert len(refused.errors.splitlines()) == 1


def test_the_cluster_tells_its_brokers(millstream: Millstream) -> None:
    info = millstream("cluster", "info", "-o", "json").document
    assert info["cluster_id"]
    assert millstream.bootstrap in [broker["address"] for broker in info["brokers"]]
    assert info["controller"] in [broker["id"] for broker in info["brokers"]]
    assert millstream("cluster", "info").lines[0] == f"cluster {info['cluster_id']}, controller {info['controller']}"


def test_a_brokers_settings_are_shown_with_their_sources(millstream: Millstream) -> None:
    [broker] = millstream("cluster", "info", "-o", "json").document["brokers"]
    rows = {row["name"]: row for row in millstream("config", "describe", "broker", broker["id"], "-o", "json").document}
    assert rows["listeners"]["value"].startswith("PLAINTEXT://127.0.0.1:")
    assert rows["listeners"]["source"] == "static broker"
    assert rows["log.retention.hours"]["source"] == "default"
    assert "there is no broker '77'" in millstream("config", "describe", "broker", 77, code=1).errors


def test_the_bootstrap_may_stand_before_the_command(millstream: Millstream, topic: str) -> None:
    elsewhere = Millstream("127.0.0.1:1")
    assert topic in elsewhere("-b", millstream.bootstrap, "topic", "list", "-q").lines
    refused = elsewhere("topic", "list", code=1)
    assert "millstream serve" in refused.errors
    assert len(refused.errors.splitlines()) == 1
