"""After a restart, how long until every group's offsets can be fetched, and what a producer notices meanwhile."""

import time
from collections.abc import Iterator

from bench import messages, runner, wire
from bench.progress import say
from bench.scale.report import Report, millis
from bench.servers import Server, Stand
from bench.table import KAFKA, MILLSTREAM
from millstream.coordination.coordinator import index_of
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

COMMIT_VERSION, FETCH_VERSION = 9, 9
TOPIC, PARTITIONS = "read", 200
#: In one commit: a consumer's share of the partitions.
ROWS = 10
OFFSETS = 1_000_000
IN_FLIGHT = 32
LIMIT_S = 10.0
COORDINATOR_LOADING, NOT_COORDINATOR = 14, 16
PATIENCE_S, POLL_S = 300.0, 0.02
#: Partitions of the offsets topic, which both servers have by default.
COORDINATORS = 50
#: A metadata of the size clients write: librdkafka none, Kafka Streams about this.
METADATA = "AgAAAZsd3Q=="


def bench(contenders: list[str], quick: bool) -> str:
    count, report = (OFFSETS // 10 if quick else OFFSETS), Report()
    with Stand(contenders) as stand:
        for name in contenders:
            if name in (MILLSTREAM, KAFKA):
                _measure(stand.new(name), count, report)
    return report.render()


def _measure(server: Server, count: int, report: Report) -> None:
    groups = [f"group-{number}" for number in range(count // PARTITIONS)]
    server.start()
    _commit(server, groups)
    runner.run("raw_latency", server, topic="probe", seconds=2)
    idle_us = runner.run("raw_latency", server, topic="probe", seconds=2)
    server.stop()
    ready_s = server.start()
    started = time.perf_counter()
    load = runner.begin("raw_latency", server, topic="probe", seconds=3)
    loaded_s = _await_loaded(server, groups, started)
    beside_us = runner.finish(load)
    shown, name = f"{count / 1e6:g} M offsets", server.name
    report.note(f"{name}: ready with {shown}", f"{ready_s:.2f} s")
    is_ours = name == MILLSTREAM
    figure = f"{loaded_s:.2f} s"
    if is_ours:
        report.hold(f"{name}: {shown} loaded, after it is ready", figure, "≤ 10 s", kept=loaded_s <= LIMIT_S)
    else:
        report.note(f"{name}: {shown} loaded, after it is ready", figure)
    report.note(f"{name}: produce p50 / p99 / longest, idle", _latencies(idle_us))
    report.note(f"{name}: produce p50 / p99 / longest in the 3 s from being ready", _latencies(beside_us))
    server.stop()


def _latencies(figures: runner.Figures) -> str:
    return " / ".join(millis(figures[key]) for key in ("p50_us", "p99_us", "max_us"))


def _commit(server: Server, groups: list[str]) -> None:
    """Every group commits an offset of every partition, a few in each request."""
    started = time.monotonic()
    with wire.Connection(server.address) as connection:
        connection.create_topic(TOPIC, PARTITIONS)
        connection.await_topic(TOPIC)
        messages.await_coordinator(connection, messages.GROUP, groups[0])
        _await_fetched(connection, groups)
        in_flight = 0
        for frame in _commits(groups):
            connection.send(frame)
            in_flight += 1
            if in_flight == IN_FLIGHT:
                _check(connection)
                in_flight -= 1
        for _ in range(in_flight):
            _check(connection)
    say(f"  {server.name}: {len(groups) * PARTITIONS:,} offsets committed in {time.monotonic() - started:.0f} s")


def _commits(groups: list[str]) -> Iterator[bytes]:
    for at in range(0, PARTITIONS, ROWS):
        rows = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=1_000 + index, committed_metadata=METADATA
            )
            for index in range(at, at + ROWS)
        ]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=rows)]
        for group in groups:
            yield messages.frame(OffsetCommitRequest(group_id=group, topics=topics), COMMIT_VERSION)


def _check(connection: wire.Connection) -> None:
    answer = messages.answer(OffsetCommitResponse, connection.receive(), COMMIT_VERSION)
    for row in answer.topics[0].partitions:
        messages.check("commit", row.error_code)


def _await_loaded(server: Server, groups: list[str], started: float) -> float:
    """Seconds until the last group's offsets could be fetched; all of them must be there."""
    with wire.Connection(server.address) as connection:
        _await_fetched(connection, groups)
        took_s = time.perf_counter() - started
        for group in groups[:: max(len(groups) // 100, 1)]:
            found = _fetch(connection, [group], range(PARTITIONS)).groups[0]
            held = [row.committed_offset for row in found.topics[0].partitions]
            if held != [1_000 + index for index in range(PARTITIONS)]:
                raise wire.Refused(f"{group} has lost offsets")
    return took_s


def _await_fetched(connection: wire.Connection, groups: list[str]) -> None:
    """Return once no group's coordinator is being loaded any more; one group of each is asked for."""
    waiting = list({index_of(group, COORDINATORS): group for group in groups}.values())
    deadline = time.monotonic() + PATIENCE_S
    while waiting:
        refused = []
        for group in _fetch(connection, waiting, range(1)).groups:
            if group.error_code in (COORDINATOR_LOADING, NOT_COORDINATOR):
                refused.append(group.group_id)
            else:
                messages.check(f"offsets of {group.group_id}", group.error_code)
        waiting = refused
        time.sleep(POLL_S)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(waiting)} groups are not loaded after {PATIENCE_S} s")


def _fetch(connection: wire.Connection, groups: list[str], partitions: range) -> OffsetFetchResponse:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(partitions))]
    asked = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups]
    return messages.ask(connection, OffsetFetchRequest(groups=asked), OffsetFetchResponse, FETCH_VERSION)
