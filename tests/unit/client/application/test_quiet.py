"""When nothing comes: time counts while brokers answer, and from when the group has shared out."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import Consumer as Wire
from confluent_kafka import KafkaError, KafkaException

from millstream import Unreachable
from millstream.client.application.reach import FIRST_S, JOIN_S, Quiet, Reach


class Clock:
    """Time as the test tells it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Cluster:
    """A client whose brokers answer, or do not."""

    def __init__(self, *, is_up: bool) -> None:
        self.is_up = is_up

    def list_topics(self, timeout: float) -> None:
        assert timeout <= 1
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def reach_of(cluster: Cluster, *, in_group: bool = False) -> Reach:
    return Reach(cast(Wire, cluster), "kafka-1:9092", in_group=in_group)


def over_after_s(quiet: Quiet, clock: Clock, most_s: float) -> float | None:
    """How long it takes, looked at each tenth of a second; None if longer than ``most_s``."""
    began_s = clock.now_s
    while clock.now_s - began_s <= most_s:
        if quiet.is_over():
            return round(clock.now_s - began_s, 1)
        clock.now_s += 0.1
    return None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("idle_s", [0.0, 2.0, 60.0])
def test_with_brokers_that_answer_it_takes_as_long_as_was_said(clock: Clock, idle_s: float) -> None:
    assert over_after_s(Quiet(reach_of(Cluster(is_up=True)), idle_s, clock=clock), clock, 100) == pytest.approx(
        idle_s, abs=0.2
    )


@pytest.mark.parametrize("idle_s", [0.0, 2.0, 60.0])
def test_brokers_that_never_answered_are_given_up_soon(clock: Clock, idle_s: float) -> None:
    began_s = clock.now_s
    with pytest.raises(Unreachable, match="no broker answers at kafka-1:9092"):
        over_after_s(Quiet(reach_of(Cluster(is_up=False)), idle_s, clock=clock), clock, 100)
    assert clock.now_s - began_s == pytest.approx(FIRST_S, abs=1.2)


def test_brokers_that_were_there_are_waited_for_and_the_time_begins_anew(clock: Clock) -> None:
    cluster = Cluster(is_up=True)
    quiet = Quiet(reach_of(cluster), 6.0, clock=clock)
    assert over_after_s(quiet, clock, 5.5) is None  # It has asked once by now.
    cluster.is_up = False
    assert over_after_s(quiet, clock, 20) is None
    cluster.is_up = True
    assert over_after_s(quiet, clock, 20) == pytest.approx(6.0, abs=1.2)
    cluster.is_up = False
    with pytest.raises(Unreachable):
        over_after_s(Quiet(quiet._reach, 6.0, patience_s=30.0, clock=clock), clock, 50)


def test_a_group_that_is_being_shared_out_is_not_quiet(clock: Clock) -> None:
    group = reach_of(Cluster(is_up=True), in_group=True)
    quiet = Quiet(group, 2.0, clock=clock)
    assert over_after_s(quiet, clock, 10) is None
    group.joined_s = clock.now_s
    assert over_after_s(quiet, clock, 10) == pytest.approx(2.0, abs=0.6)


def test_a_group_that_gives_nothing_is_not_waited_for_for_ever(clock: Clock) -> None:
    quiet = Quiet(reach_of(Cluster(is_up=True), in_group=True), 2.0, clock=clock)
    assert over_after_s(quiet, clock, 100) == pytest.approx(JOIN_S, abs=0.6)


def test_without_an_end_it_is_never_over(clock: Clock) -> None:
    assert over_after_s(Quiet(reach_of(Cluster(is_up=False)), None, clock=clock), clock, 1_000) is None
