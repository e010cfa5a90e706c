"""No broker at the address: told soon, by name, and never taken for a topic without records."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest

from millstream import Admin, Consumer, DeliveryFailed, Producer, Unreachable, process
from millstream.client.application import reach


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address where connections are refused: the port is taken, and not listened on."""
    monkeypatch.setattr(reach, "FIRST_S", 0.3)
    monkeypatch.setattr(reach, "PROBE_S", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def _of_a_group(address: str) -> object:
    with Consumer("orders", group="billing", bootstrap=address) as consumer:
        return list(consumer.records(idle_s=0.2))


def _admin_topics(address: str) -> object:
    with Admin(address) as admin:
        return admin.topics()


def _admin_groups(address: str) -> object:
    with Admin(address) as admin:
        return admin.groups()


@pytest.mark.parametrize(
    "use",
    [
        _of_a_group,
        lambda address: Consumer("orders", bootstrap=address),
        lambda address: process("orders", "invoices", lambda record: record, group="g", bootstrap=address, idle_s=0.2),
        _admin_topics,
        _admin_groups,
        lambda address: Producer(address, transactional_id="mover").transaction().begin(),
    ],
    ids=["a group", "no group", "process", "topics", "groups", "a transaction"],
)
def test_an_address_without_a_broker_is_named_soon(nobody: str, use: Callable[[str], object]) -> None:
    began_s = time.monotonic()
    with pytest.raises(Unreachable, match=nobody):
        use(nobody)
    assert time.monotonic() - began_s < 5


def test_a_poll_ends_when_it_was_told_to(nobody: str) -> None:
    with Consumer("orders", group="billing", bootstrap=nobody) as consumer:
        assert consumer.poll(0.1) is None


def test_someone_who_listens_is_not_absent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not reach.is_refused(f"127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
        assert reach.is_refused("127.0.0.1:1")


def test_what_could_not_be_sent_is_told_with_the_address(nobody: str) -> None:
    producer = Producer(nobody)
    producer.send("orders", b"x")
    with pytest.raises(DeliveryFailed, match=f"1 of the records sent .* no broker answers at {nobody}"):
        producer.close(0.1)
