"""A member of a group commits an offset, waits for the answer, commits the next: round trips on one connection."""

import itertools
import struct
import time

from bench import messages, wire
from bench.loads import options
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

JOIN_VERSION, SYNC_VERSION, COMMIT_VERSION, FETCH_VERSION = 9, 5, 9, 9
MEMBER_ID_REQUIRED, COORDINATOR_LOADING, NOT_COORDINATOR = 79, 14, 16
SESSION_TIMEOUT_MS = 45_000
#: A number that no other field of the request shows by chance; it marks where the offset lies.
PROBE_OFFSET = 0x0123456789ABCDEF


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--commits", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=0, help="commits before the clock starts")
    given = parser.parse_args()
    group = f"group-{given.topic}"
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        messages.await_coordinator(connection, messages.GROUP, group)
        member_id, generation = join(connection, group, given.topic)
        request = bytearray(messages.frame(_commit(group, member_id, generation, given.topic), COMMIT_VERSION))
        expected = bytes(connection.ask(memoryview(request)))
        for row in messages.answer(OffsetCommitResponse, memoryview(expected), COMMIT_VERSION).topics[0].partitions:
            messages.check(f"commit by {group}", row.error_code)
        times_us = measure(connection, request, expected, given.warm_up, given.commits)
        held = _committed(connection, group, given.topic)
    if held != given.warm_up + given.commits:
        raise SystemExit(f"{given.warm_up + given.commits} was committed last, {held} holds")
    took_s = sum(times_us) / 1e6
    times_us.sort()
    p50_us, p99_us = (options.percentile(times_us, share) for share in (0.5, 0.99))
    options.report(commits_per_s=given.commits / took_s, p50_us=p50_us, p99_us=p99_us)


def measure(
    connection: wire.Connection, request: bytearray, expected: bytes, warm_up: int, commits: int
) -> list[float]:
    """Commit 1, 2, 3…; how long each took, those before the clock started left out."""
    send, receive, buffer = connection.socket.send, connection.socket.recv_into, bytearray(len(expected) + 4)
    offset, offset_at, answer = struct.Struct(">q"), request.index(offset_bytes(PROBE_OFFSET)), memoryview(buffer)[4:]
    ends = []
    for number in range(1, warm_up + commits + 1):
        if number == warm_up + 1:
            ends.append(time.perf_counter())
        offset.pack_into(request, offset_at, number)
        send(request)
        if receive(buffer) != len(buffer) or answer != expected:
            raise SystemExit("an answer was a refusal, or came in pieces")
        if ends:
            ends.append(time.perf_counter())
    return [(after - before) * 1e6 for before, after in itertools.pairwise(ends)]


def offset_bytes(offset: int) -> bytes:
    return offset.to_bytes(8, "big")


def join(connection: wire.Connection, group: str, topic: str) -> tuple[str, int]:
    """Become the group's only member; its id and the generation."""
    subscription = b"\0\0" + struct.pack(">i", 1) + wire.text(topic) + struct.pack(">i", -1)
    member_id = ""
    while True:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        joined = messages.ask(connection, request, JoinGroupResponse, JOIN_VERSION)
        if joined.error_code not in (MEMBER_ID_REQUIRED, COORDINATOR_LOADING, NOT_COORDINATOR):
            break
        member_id = joined.member_id
        if joined.error_code != MEMBER_ID_REQUIRED:
            time.sleep(0.02)
    messages.check(f"join of {group}", joined.error_code)
    assignment = b"\0\0" + struct.pack(">i", 1) + wire.text(topic) + struct.pack(">iii", 1, 0, -1)
    synced = messages.ask(
        connection,
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
        ),
        SyncGroupResponse,
        SYNC_VERSION,
    )
    messages.check(f"sync of {group}", synced.error_code)
    return joined.member_id, joined.generation_id


def _commit(group: str, member_id: str, generation: int, topic: str) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=PROBE_OFFSET, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
    )


def _committed(connection: wire.Connection, group: str, topic: str) -> int:
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    found = messages.ask(connection, OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, FETCH_VERSION).groups[0]
    messages.check(f"offsets of {group}", found.error_code)
    return found.topics[0].partitions[0].committed_offset


if __name__ == "__main__":
    main()
