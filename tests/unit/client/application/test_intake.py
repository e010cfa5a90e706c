"""How a consumer leaves its group: librdkafka's own, at a broker that it plays for tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as Wire
from confluent_kafka import Producer

from millstream.client.application import intake as intakes
from millstream.client.application.delivery import Delivery
from millstream.client.application.intake import Intake

#: How long a member may take to be given its partition.
JOIN_S = 30.0
#: More than fit into the time for leaving, as these tests have it.
SLICES_MAX = 1_000


class Noted(Wire):
    """Tells whether it was still a member of its group when it was closed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.slices = 0
        self.closed_as: list[tuple[str, int]] = []

    def consume(self, *given: Any) -> Any:
        self.slices += 1
        return super().consume(*given)

    def close(self) -> Any:
        self.closed_as.append((self.memberid() or "", len(self.assignment())))
        return super().close()


class Unheard(Noted):
    """Nobody ever says that it has left."""

    def memberid(self) -> str:
        assert self.slices < SLICES_MAX, "it is waited for without an end"
        return "still"


class Unwilling(Noted):
    """Cannot leave."""

    def unsubscribe(self) -> None:
        raise RuntimeError("as scripted")


@pytest.fixture(autouse=True)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "Wire", getattr(request, "param", Noted))


def subscribed(**settings: Any) -> tuple[Intake, Noted]:
    given = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **settings}
    one = Intake(given, group="g", start="earliest", delivery=Delivery.AT_LEAST_ONCE, on_assign=None, on_revoke=None)
    one.subscribe(("orders",))
    assert isinstance(one.wire, Noted)
    return one, one.wire


@pytest.fixture
def cluster() -> Iterator[str]:
    """A broker that librdkafka plays, with the topic."""
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    found = host.list_topics("orders", timeout=JOIN_S)
    assert found.topics["orders"].error is None
    [broker] = found.brokers.values()
    yield f"{broker.host}:{broker.port}"


def joined(cluster: str, **settings: Any) -> tuple[Intake, Noted]:
    """With the partitions that it was given."""
    one, wire = subscribed(**{"bootstrap.servers": cluster, **settings})
    deadline_s = time.monotonic() + JOIN_S
    while not wire.assignment():
        assert time.monotonic() < deadline_s
        one.fetch(1, 0.05)
    return one, wire


def test_a_group_is_left_before_the_wire_is_closed(cluster: str) -> None:
    one, wire = joined(cluster)
    assert wire.memberid()
    one.close()
    assert wire.closed_as == [("", 0)]


def test_a_static_member_keeps_its_place(cluster: str) -> None:
    one, wire = joined(cluster, **{"group.instance.id": "one"})
    one.close()
    [(member, partitions)] = wire.closed_as
    assert member and partitions


@pytest.mark.parametrize("wire", [Unheard], indirect=True)
def test_a_group_that_is_not_heard_of_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intakes, "LEAVE_S", 10 * intakes.LEAVE_SLICE_S)
    one, wire = subscribed()
    one.close()
    assert wire.slices
    assert len(wire.closed_as) == 1


@pytest.mark.parametrize("wire", [Unwilling], indirect=True)
def test_the_wire_is_closed_also_where_leaving_fails() -> None:
    one, wire = subscribed()
    with pytest.raises(RuntimeError, match="as scripted"):
        one.close()
    assert len(wire.closed_as) == 1
