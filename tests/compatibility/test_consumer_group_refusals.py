"""What Kafka refuses of members of the new protocol, as raw bytes; each code was first seen from Apache Kafka."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import NOT_YET, Connections
from tests.compatibility.test_refusals import NO_TAGS, compact_array
from tests.compatibility.wire import Wire, compact_string

CONSUMER_GROUP_HEARTBEAT = 68
NULL = b"\x00"
UNKNOWN_MEMBER, INVALID_REQUEST, GROUP_ID_NOT_FOUND = 25, 42, 69
FENCED_EPOCH, UNRELEASED_INSTANCE, UNSUPPORTED_ASSIGNOR, INVALID_PATTERN = 110, 111, 112, 128


def text(given: str | None) -> bytes:
    return NULL if given is None else compact_string(given)


def beat(
    wire: Wire,
    group: str,
    member: str = "me",
    epoch: int = 0,
    *,
    instance: str | None = None,
    timeout_ms: int = 10_000,
    topics: tuple[str, ...] | None = (),
    pattern: str | None = None,
    assignor: str | None = None,
    held: bytes = compact_array(),
) -> tuple[int, int]:
    """Error and epoch of the answer."""
    body = text(group) + text(member) + struct.pack(">i", epoch) + text(instance) + NULL + struct.pack(">i", timeout_ms)
    body += NULL if topics is None else compact_array(*map(compact_string, topics))
    body += text(pattern) + text(assignor) + held + NO_TAGS
    answer = wire.call(CONSUMER_GROUP_HEARTBEAT, 1, body, tags=NO_TAGS)
    answer.tags()
    answer.int32()
    error = answer.int16()
    for _ in range(2):  # The error in words, and the member's id.
        answer.take(max(answer.varint() - 1, 0))
    return error, answer.int32()


@pytest.fixture(scope="module")
def connections(bootstrap: str) -> Iterator[Connections]:
    with closing(Connections(bootstrap, timeout_s=30)) as opened:
        yield opened


@pytest.fixture(scope="module")
def living(connections: Connections, new_topic: NewTopic) -> str:
    """A group in which ``me`` is the instance ``one``."""
    group, topic = f"g-{uuid.uuid4().hex[:12]}", new_topic()
    wire = connections.to_coordinator(group)
    deadline = time.monotonic() + 30
    while (error := beat(wire, group, instance="one", topics=(topic,))[0]) in NOT_YET:
        assert time.monotonic() < deadline, f"no coordinator: {error}"
        time.sleep(0.05)
    assert error == 0
    return group


@pytest.fixture(scope="module")
def wire(connections: Connections, living: str) -> Wire:
    """A connection to the coordinator of that group."""
    return connections.to_coordinator(living)


#: What is asked of a group that is not there, or is where ``group`` says so; and the answer.
REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "no group": ({"group": ""}, INVALID_REQUEST),
    "no member": ({"member": ""}, INVALID_REQUEST),
    "an epoch below all": ({"epoch": -3}, INVALID_REQUEST),
    "no time to rebalance": ({"timeout_ms": -1}, INVALID_REQUEST),
    "no subscription": ({"topics": None}, INVALID_REQUEST),
    "no word of what is held": ({"held": NULL}, INVALID_REQUEST),
    "partitions held at the start": (
        {"held": compact_array(bytes(16) + compact_array(struct.pack(">i", 0)) + NO_TAGS)},
        INVALID_REQUEST,
    ),
    "an empty instance": ({"instance": ""}, INVALID_REQUEST),
    "an empty assignor": ({"assignor": ""}, UNSUPPORTED_ASSIGNOR),
    "away without an instance": ({"epoch": -2}, INVALID_REQUEST),
    "an unknown assignor": ({"assignor": "odd"}, UNSUPPORTED_ASSIGNOR),
    "a broken pattern": ({"topics": None, "pattern": "("}, INVALID_PATTERN),
    "going on where nothing is": ({"epoch": 5}, GROUP_ID_NOT_FOUND),
    "leaving where nothing is": ({"epoch": -1}, GROUP_ID_NOT_FOUND),
    "going on as someone unknown": ({"group": "living", "member": "who", "epoch": 1}, UNKNOWN_MEMBER),
    "leaving as someone unknown": ({"group": "living", "member": "who", "epoch": -1}, UNKNOWN_MEMBER),
    "an epoch yet to come": ({"group": "living", "epoch": 99, "instance": "one"}, FENCED_EPOCH),
    "an instance that is taken": ({"group": "living", "member": "who", "instance": "one"}, UNRELEASED_INSTANCE),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_member_s_mistake_is_refused(connections: Connections, wire: Wire, living: str, what: str) -> None:
    given, code = REFUSED[what]
    group = {"living": living}.get(given.get("group", ""), given.get("group", connections.group_beside(living)))
    assert beat(wire, **{**given, "group": group})[0] == code


def test_what_is_right_is_not_refused(connections: Connections, wire: Wire, living: str) -> None:
    group = connections.group_beside(living)
    error, epoch = beat(wire, group, assignor="range", pattern="none-.*")
    assert error == 0 and epoch > 0
    assert beat(wire, group, epoch=epoch) == (0, epoch)
    assert beat(wire, group, epoch=-1) == (0, -1)
