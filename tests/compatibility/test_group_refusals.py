"""What Kafka refuses of members and their offsets, as raw bytes; each code was first seen from Apache Kafka."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import NOT_YET, Connections
from tests.compatibility.test_refusals import array
from tests.compatibility.wire import FIND_COORDINATOR, Cursor, Wire, string

OFFSET_COMMIT, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DELETE_GROUPS = 8, 11, 12, 13, 14, 42
UNKNOWN_TOPIC, METADATA_TOO_LARGE, ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, INVALID_GROUP_ID = 3, 12, 22, 23, 24
UNKNOWN_MEMBER, INVALID_SESSION_TIMEOUT, INVALID_REQUEST = 25, 26, 42
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID = 68, 69, 79, 82


@dataclass(frozen=True)
class Member:
    """Who a request claims to come from."""

    connections: Connections
    wire: Wire
    topic: str
    group: str
    id: str = ""
    instance: str | None = None
    generation: int = -1

    def join(self, *, session_ms: int = 10_000, kind: str = "consumer", protocols: tuple[str, ...] = ("range",)) -> int:
        return self.joined(session_ms=session_ms, kind=kind, protocols=protocols)[0]

    def joined(
        self, *, session_ms: int = 10_000, kind: str = "consumer", protocols: tuple[str, ...] = ("range",)
    ) -> tuple[int, Member]:
        """The error, and this member as the answer names it."""
        rows = array(*(string(name) + struct.pack(">i", 0) for name in protocols))
        times = struct.pack(">ii", session_ms, 10_000)
        body = string(self.group) + times + string(self.id) + string(self.instance) + string(kind) + rows
        answer = self._call(JOIN_GROUP, 5, body)
        error, generation = answer.int16(), answer.int32()
        answer.string()
        answer.string()
        return error, replace(self, id=answer.string() or "", generation=generation)

    def sync(self) -> int:
        return self._call(SYNC_GROUP, 3, self._signed() + array()).int16()

    def heartbeat(self) -> int:
        return self._call(HEARTBEAT, 3, self._signed()).int16()

    def leave(self) -> int:
        return self._call(LEAVE_GROUP, 2, string(self.group) + string(self.id)).int16()

    def commit(self, *, metadata: str = "", partition: int = 0) -> int:
        row = struct.pack(">iqi", partition, 1, -1) + string(metadata)
        answer = self._call(OFFSET_COMMIT, 7, self._signed() + array(string(self.topic) + array(row)))
        assert (answer.int32(), answer.string(), answer.int32(), answer.int32()) == (1, self.topic, 1, partition)
        return answer.int16()

    def delete_group(self) -> int:
        answer = self._call(DELETE_GROUPS, 1, array(string(self.group)))
        assert (answer.int32(), answer.string()) == (1, self.group)
        return answer.int16()

    def find_coordinator(self, kind: int) -> int:
        return self._call(FIND_COORDINATOR, 2, string(self.group) + struct.pack(">b", kind)).int16()

    def _signed(self) -> bytes:
        return string(self.group) + struct.pack(">i", self.generation) + string(self.id) + string(self.instance)

    def _call(self, key: int, version: int, body: bytes) -> Cursor:
        answer = self.wire.call(key, version, body)
        answer.int32()
        return answer


@pytest.fixture(scope="module")
def living(bootstrap: str, new_topic: NewTopic) -> Iterator[Member]:
    """The static member of a stable group of one."""
    with closing(Connections(bootstrap, timeout_s=30)) as connections:
        yield made(connections, new_topic())


def made(connections: Connections, topic: str) -> Member:
    group = f"g-{uuid.uuid4().hex[:12]}"
    wanting = Member(connections, connections.to_coordinator(group), topic, group, instance="one")
    deadline = time.monotonic() + 30
    while (coming := wanting.heartbeat()) in NOT_YET:
        assert time.monotonic() < deadline, f"no coordinator: {coming}"
        time.sleep(0.05)
    error, member = wanting.joined()
    assert (error, member.sync()) == (0, 0)
    return member


#: What each does to the group of the living member, and what it is told; first those that know nothing of the group.
REFUSED: dict[str, tuple[Callable[[Member], int], int]] = {
    "join no group": (lambda living: replace(living, group="", id="", instance=None).join(), INVALID_GROUP_ID),
    "join for too short": (lambda living: elsewhere(living).join(session_ms=1), INVALID_SESSION_TIMEOUT),
    "join for too long": (lambda living: elsewhere(living).join(session_ms=2**31 - 1), INVALID_SESSION_TIMEOUT),
    "join without protocols": (lambda living: elsewhere(living).join(protocols=()), INCONSISTENT_PROTOCOL),
    "join without a kind": (lambda living: elsewhere(living).join(kind=""), INCONSISTENT_PROTOCOL),
    "join as nobody known": (lambda living: replace(elsewhere(living), id="who").join(), UNKNOWN_MEMBER),
    "join without an id": (lambda living: elsewhere(living).join(), MEMBER_ID_REQUIRED),
    "sync nowhere": (lambda living: replace(elsewhere(living), id="who", generation=1).sync(), UNKNOWN_MEMBER),
    "beat nowhere": (lambda living: replace(elsewhere(living), id="who", generation=1).heartbeat(), UNKNOWN_MEMBER),
    "leave nowhere": (lambda living: replace(elsewhere(living), id="who").leave(), UNKNOWN_MEMBER),
    "commit nowhere": (lambda living: replace(elsewhere(living), id="who", generation=1).commit(), ILLEGAL_GENERATION),
    "delete nothing": (lambda living: elsewhere(living).delete_group(), GROUP_ID_NOT_FOUND),
    "look for what no coordinator has": (lambda living: living.find_coordinator(7), INVALID_REQUEST),
    "join with another kind": (lambda living: stranger(living).join(kind="connect"), INCONSISTENT_PROTOCOL),
    "join with another protocol": (lambda living: stranger(living).join(protocols=("odd",)), INCONSISTENT_PROTOCOL),
    "join as someone unknown": (lambda living: replace(living, id="who", instance=None).join(), UNKNOWN_MEMBER),
    "join as another's instance": (lambda living: replace(living, id="who").join(), FENCED_INSTANCE_ID),
    "sync as someone unknown": (lambda living: replace(living, id="who", instance=None).sync(), UNKNOWN_MEMBER),
    "sync as another's instance": (lambda living: replace(living, id="who").sync(), FENCED_INSTANCE_ID),
    "sync in another time": (lambda living: replace(living, generation=9).sync(), ILLEGAL_GENERATION),
    "beat as someone unknown": (lambda living: replace(living, id="who", instance=None).heartbeat(), UNKNOWN_MEMBER),
    "beat as an unknown instance": (lambda living: replace(living, instance="two").heartbeat(), UNKNOWN_MEMBER),
    "beat as another's instance": (lambda living: replace(living, id="who").heartbeat(), FENCED_INSTANCE_ID),
    "beat in another time": (lambda living: replace(living, generation=9).heartbeat(), ILLEGAL_GENERATION),
    "leave as someone unknown": (lambda living: replace(living, id="who").leave(), UNKNOWN_MEMBER),
    "commit as someone unknown": (lambda living: replace(living, id="who", instance=None).commit(), UNKNOWN_MEMBER),
    "commit as another's instance": (lambda living: replace(living, id="who").commit(), FENCED_INSTANCE_ID),
    "commit in another time": (lambda living: replace(living, generation=9).commit(), ILLEGAL_GENERATION),
    "commit as nobody": (lambda living: stranger(living).commit(), UNKNOWN_MEMBER),
    "commit too many words": (lambda living: living.commit(metadata="x" * 4097), METADATA_TOO_LARGE),
    "commit for no topic": (lambda living: replace(living, topic="none-such").commit(), UNKNOWN_TOPIC),
    "commit for no partition": (lambda living: living.commit(partition=9), UNKNOWN_TOPIC),
    "delete a group with members": (lambda living: living.delete_group(), NON_EMPTY_GROUP),
}


def elsewhere(living: Member) -> Member:
    """A stranger to a group that is not there, and would be at the same coordinator."""
    return stranger(replace(living, group=living.connections.group_beside(living.group)))


def stranger(living: Member) -> Member:
    return replace(living, id="", instance=None, generation=-1)


@pytest.mark.parametrize("what", REFUSED)
def test_a_member_s_mistake_is_refused(living: Member, what: str) -> None:
    request, code = REFUSED[what]
    assert request(living) == code
    assert living.heartbeat() == 0, "others paid for it"


def test_what_is_right_is_not_refused(living: Member) -> None:
    assert [living.sync(), living.heartbeat(), living.commit(metadata="x" * 4096)] == [0, 0, 0]
    assert elsewhere(living).commit() == 0
