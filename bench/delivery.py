"""The stages of the delivery table: offsets, transactions and groups, as each server serves them by default."""

import asyncio
import time
from collections.abc import Callable
from statistics import median

from tests.compatibility import apache_kafka

from bench import runner, wire
from bench.members import Group
from bench.servers import Server
from bench.stages import Turn
from bench.table import CEILING, LESS, MILLIONS, MILLSTREAM, MORE, PER_S, SECONDS, THOUSANDS, TIMES, Row

LIBRDKAFKA_TRANSACTIONS, JAVA_TRANSACTIONS = "librdkafka_transactions", "java_transactions"
#: row -> load
TRANSACTIONS = {
    "transactions": LIBRDKAFKA_TRANSACTIONS,
    "transactions_java": JAVA_TRANSACTIONS,
    "transactions_raw": "raw_transactions",
}
LIBRDKAFKA = "librdkafka"
RAW = "raw client"
MEMBERS = 20
#: How long Kafka waits for more members before a group first meets.
KAFKA_DELAY = {"group.initial.rebalance.delay.ms": "3000"}
#: Of the topic that is read by both isolation levels: records in each transaction, and which of them is aborted.
READ_RECORDS, READ_ABORT_EVERY = 1_000, 10
#: A read takes less than a second, so it is done several times, the levels in turns.
READS = 5


def commits(turn: Turn) -> runner.Figures:
    count = turn.sizes.commits
    figures = runner.run("raw_commits", turn.server, topic=turn.topic("commits"), commits=count, warm_up=count // 2)
    return {"commits": figures["commits_per_s"]}


def transactions(turn: Turn) -> runner.Figures:
    """100 records over 4 partitions in each: by clients of today, and by one that only waits for the server."""
    count, found = turn.sizes.transactions, {}
    for key, load in TRANSACTIONS.items():
        if turn.server.name == CEILING and load != LIBRDKAFKA_TRANSACTIONS:
            continue  # It speaks the oldest versions alone.
        if load == JAVA_TRANSACTIONS and apache_kafka.missing():
            continue
        topic = turn.topic(key.replace("_", "-"))
        figures = runner.run(load, turn.server, topic=topic, transactions=count, warm_up=count // 2)
        found[key] = figures["transactions_per_s"]
    return found


def read_committed(turn: Turn) -> runner.Figures:
    """A topic written in transactions, one in ten aborted: all of it, and what was committed of it."""
    topic, count = turn.topic("isolation"), turn.sizes.transactions
    assert count % READ_ABORT_EVERY == 0, "the last transaction, one more, is to be committed"
    options = {"transactions": count + 1, "records": READ_RECORDS, "abort_every": READ_ABORT_EVERY, "partitions": 1}
    runner.run("librdkafka_transactions", turn.server, topic=topic, **options)
    written = (count + 1) * READ_RECORDS
    aborted = count // READ_ABORT_EVERY * READ_RECORDS
    expected = {"read_uncommitted": written, "read_committed": written - aborted}
    taken_s: dict[str, list[float]] = {level: [] for level in expected}
    for _ in range(READS):
        for level, records in expected.items():
            figures = runner.run(
                "librdkafka_consume", turn.server, topic=topic, records=records, bytes=100, isolation=level
            )
            taken_s[level].append(figures["seconds"])
    committed_s, all_s = median(taken_s["read_committed"]), median(taken_s["read_uncommitted"])
    return {"read_committed": written / committed_s, "read_committed_ratio": committed_s / all_s}


def settle(turn: Turn) -> runner.Figures:
    """Members that come all at once, until each partition has one reader."""
    default_s = asyncio.run(_settle(turn.server, turn.topic("settle")))
    real_s = runner.run("librdkafka_members", turn.server, topic=turn.topic("real"), members=MEMBERS)["seconds"]
    found = {"settle": default_s, "settle_delay": default_s, "settle_librdkafka": real_s}
    if turn.server.name != MILLSTREAM:
        return found
    patient = turn.stand.new(MILLSTREAM, KAFKA_DELAY)
    patient.start()
    found["settle_delay"] = asyncio.run(_settle(patient, turn.topic("settle")))
    turn.stand.discard(patient)
    return found


async def _settle(server: Server, topic: str) -> float:
    with wire.Connection(server.address) as connection:
        connection.create_topic(topic, MEMBERS)
        connection.await_topic(topic)
        # The internal topic and what a server compiles at first are no part of a rebalance.
        await _met(server, f"{topic}-first", topic, members=1)
        return await _met(server, topic, topic, members=MEMBERS)


async def _met(server: Server, name: str, topic: str, members: int) -> float:
    group = Group(server.address, name, topic, MEMBERS)
    try:
        started = time.perf_counter()
        await group.add(members)
        return await group.settled() - started
    finally:
        group.close()


STAGES: dict[str, Callable[[Turn], runner.Figures]] = {
    "commits": commits,
    "transactions": transactions,
    "read-committed": read_committed,
    "settle": settle,
}

ROWS = [
    Row("commits", "offset commits, one at a time on one connection", RAW, THOUSANDS, MORE, of_kafka=1.2),
    Row("transactions", "transactions of 100 records over 4 partitions", LIBRDKAFKA, PER_S, MORE, of_kafka=2.0),
    Row("transactions_java", "the same", "Kafka's Java client", PER_S, MORE, of_kafka=2.0),
    Row("transactions_raw", "the same, two requests each (KIP-890)", RAW, PER_S, MORE, of_kafka=2.0),
    Row("read_committed", "read committed, 100 B, one transaction in ten aborted", LIBRDKAFKA, MILLIONS, MORE),
    Row("read_committed_ratio", "its time, of reading uncommitted", LIBRDKAFKA, TIMES, LESS, None, None, 1.1),
    Row("settle", f"{MEMBERS} members settle, default settings", "members, classic", SECONDS, LESS, limit=1.0),
    Row("settle_librdkafka", "the same", f"{LIBRDKAFKA}, classic", SECONDS, LESS, limit=1.0),
    Row("settle_delay", f"{MEMBERS} members settle, Kafka's delay of 3 s", "members, classic", SECONDS, LESS),
]
