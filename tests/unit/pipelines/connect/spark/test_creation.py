"""How a source's topics are to be made, by its config."""

import pytest

from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.spark.creation import rules_of

GIVEN = {
    "topic.creation.groups": "small, big",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.default.compression.type": "zstd",
    "topic.creation.small.include": "status, .*-config",
    "topic.creation.small.exclude": "big-config",
    "topic.creation.small.partitions": "1",
    "topic.creation.small.cleanup.policy": "compact",
    "topic.creation.big.include": "big.*",
}


@pytest.mark.parametrize(
    ("topic", "group", "partitions"),
    [
        ("status", "small", 1),
        ("my-config", "small", 1),
        ("big-config", "big", 3),
        ("bigger", "big", 3),
        ("orders", "default", 3),
    ],
)
def test_the_first_group_that_has_a_topic_says_how_it_is_made(topic: str, group: str, partitions: int) -> None:
    rule = next(rule for rule in rules_of(GIVEN) if rule.holds(topic))
    assert (rule.group, rule.partitions, rule.replicas) == (group, partitions, -1)


def test_what_else_a_group_says_are_the_topics_settings() -> None:
    small, big, default = rules_of(GIVEN)
    assert (small.settings, big.settings, default.settings) == (
        {"cleanup.policy": "compact"},
        {},
        {"compression.type": "zstd"},
    )


def test_without_a_default_topics_are_the_brokers_business() -> None:
    assert rules_of({"topic.creation.groups": "a", "topic.creation.a.include": ".*"}) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topic.creation.default.partitions": "0"}, "topic.creation.default.partitions=0"),
        ({"topic.creation.big.replication.factor": "x"}, "topic.creation.big.replication.factor=x"),
        ({"topic.creation.big.include": ""}, "topic.creation.big.include must say"),
    ],
)
def test_rules_that_cannot_work_are_refused_by_name(change: dict[str, str], words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        rules_of({**GIVEN, **change})


def test_a_default_must_say_how_many() -> None:
    with pytest.raises(Misconfigured, match=r"topic\.creation\.default\.replication\.factor"):
        rules_of({"topic.creation.default.partitions": "1"})
