from struct import pack

import pytest

from millstream.coordination.schemas.consumer_protocol import subscribed_topics
from tests.unit.coordination.groups.classic.machine import subscription

ORDERS = subscription("orders", "bills")


def test_topics_are_read() -> None:
    assert subscribed_topics(ORDERS) == frozenset({"orders", "bills"})
    assert subscribed_topics(subscription()) == frozenset()
    assert subscribed_topics(subscription("grüße")) == frozenset({"grüße"})


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_what_later_versions_add_is_not_looked_at(version: int) -> None:
    assert subscribed_topics(pack(">h", version) + ORDERS[2:] + b"whatever comes behind") == frozenset(
        {"orders", "bills"}
    )


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        ORDERS[:5],
        ORDERS[:10],
        pack(">hi", -1, 0),
        pack(">hi", 0, -1),
        pack(">hih", 0, 1, -1),
        pack(">hih", 0, 1, 2) + b"\xff\xff",
        pack(">hi", 0, 2**31 - 1),
    ],
)
def test_what_cannot_be_read_is_not_known(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None
