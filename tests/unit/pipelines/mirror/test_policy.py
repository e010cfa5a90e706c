"""Names of mirrored topics, as MirrorMaker gives them."""

import pytest

from millstream.pipelines.mirror.policy import POLICIES, Choice, DefaultPolicy, IdentityPolicy

DEFAULT = DefaultPolicy()
IDENTITY = IdentityPolicy(source="A")


def test_a_mirrored_topic_has_its_cluster_before_its_name_and_is_found_by_it() -> None:
    assert DEFAULT.remote_topic("A", "orders") == "A.orders"
    assert (DEFAULT.source_of("A.orders"), DEFAULT.upstream_topic("A.orders")) == ("A", "orders")
    assert (DEFAULT.source_of("orders"), DEFAULT.upstream_topic("orders")) == (None, None)
    assert DEFAULT.source_of("orders.") is None
    assert DEFAULT.upstream_topic("C.A.orders") == "A.orders"


def test_another_separator_is_used_for_topics_and_where_wanted_for_our_own() -> None:
    policy = DefaultPolicy("--", "--")
    assert policy.remote_topic("A", "orders") == "A--orders"
    assert policy.upstream_topic("A--orders.eu") == "orders.eu"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs--B--internal"
    assert DefaultPolicy("--", ".").checkpoints_topic("A") == "A.checkpoints.internal"


def test_the_topics_of_the_mirror_have_mirrormakers_names() -> None:
    assert DEFAULT.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert DEFAULT.checkpoints_topic("A") == "A.checkpoints.internal"


@pytest.mark.parametrize(
    ("topic", "is_cycle"), [("orders", False), ("B.orders", True), ("C.B.orders", True), ("C.orders", False)]
)
def test_a_topic_that_came_from_the_target_does_not_go_back_there(topic: str, is_cycle: bool) -> None:
    assert DEFAULT.is_cycle(topic, "B") is is_cycle


def test_topics_that_keep_their_names_are_told_apart_only_where_they_are_heartbeats() -> None:
    assert IDENTITY.remote_topic("A", "orders") == "orders"
    assert IDENTITY.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert (IDENTITY.source_of("orders"), IDENTITY.upstream_topic("orders")) == ("A", "orders")
    assert not IDENTITY.is_cycle("orders", "B")
    assert IDENTITY.is_cycle("B.heartbeats", "B")


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY])
def test_heartbeats_are_known_over_every_cluster_they_passed(policy: DefaultPolicy) -> None:
    assert policy.is_heartbeats("heartbeats")
    assert policy.is_heartbeats("C.A.heartbeats")
    assert not policy.is_heartbeats("orders")


@pytest.mark.parametrize("topic", ["__consumer_offsets", "mm2-offset-syncs.B.internal", "A.checkpoints.internal", ".x"])
def test_internal_topics_stay_where_they_are(topic: str) -> None:
    assert DEFAULT.is_internal(topic)
    assert not DEFAULT.is_internal("orders.internal")


def test_a_policy_goes_by_kafkas_name_or_the_short_one() -> None:
    assert POLICIES["org.apache.kafka.connect.mirror.IdentityReplicationPolicy"] is IdentityPolicy
    assert POLICIES["DefaultReplicationPolicy"] is DefaultPolicy


def test_a_choice_takes_names_and_patterns_that_match_the_whole_and_leaves_the_excluded() -> None:
    choice = Choice(["orders", "pay.*"], [".*-test"])
    assert [name for name in ("orders", "orders2", "payments", "pay-test", "x") if name in choice] == [
        "orders",
        "payments",
    ]
    assert "anything" not in Choice([], [])
