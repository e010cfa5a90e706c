"""Registry consumers as processes on a real cluster: they share partitions by themselves, and lose nothing."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest

from millstream.client.registry_consumer import RegistryConsumer
from millstream.registry.embedded import EmbeddedTree
from millstream.registry.tree import RegistryFailure
from tests.system.broker_process import BrokerProcess
from tests.system.command import Millstream

TIMEOUT_S = 40.0


class Member:
    """One consumer process, and what it said."""

    def __init__(self, registry: str, group: str, pattern: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.registry_member", registry, group, pattern],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.owned: frozenset[str] = frozenset()
        self.read: list[tuple[str, int, str]] = []
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "owns":
                self.owned = frozenset(rest)
            else:
                self.read.append((rest[0], int(rest[1]), rest[2]))

    def end(self, how: Callable[[], None]) -> None:
        how()
        self.process.wait(TIMEOUT_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.owned = frozenset()


def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.02)


@pytest.fixture
def cluster(zookeeper: str, tmp_path: Path) -> Iterator[tuple[str, list[BrokerProcess], ExitStack]]:
    """Two brokers, and where their registry is."""
    registry = f"zk://{zookeeper}/{os.urandom(6).hex()}"
    with ExitStack() as running:
        brokers = [start_broker(running, tmp_path, registry, number) for number in (1, 2)]
        yield registry, brokers, running


def start_broker(running: ExitStack, folder: Path, registry: str, number: int) -> BrokerProcess:
    broker = BrokerProcess(folder / str(number), settings={"broker.id": number}, arguments=["--registry", registry])
    return running.enter_context(broker)


def test_three_members_one_killed_a_topic_and_a_broker_added_and_nothing_is_skipped(
    cluster: tuple[str, list[BrokerProcess], ExitStack], tmp_path: Path
) -> None:
    registry, brokers, running = cluster
    millstream = Millstream(brokers[0].address)
    millstream("topic", "create", "orders", "-p", 6, "-r", 2)
    written: set[str] = set()

    def produce(topic: str, *words: str) -> None:
        for partition in range(6):
            values = [f"{topic}-{partition}-{word}" for word in words]
            millstream("produce", topic, "-p", partition, stdin="".join(f"{value}\n" for value in values))
            written.update(values)

    members = [Member(registry, "readers", "orders.*") for _ in range(3)]
    gone: list[Member] = []

    def end_members() -> None:
        for member in members:
            member.end(member.process.kill)

    running.callback(end_members)

    def owned_once(*topics: str) -> bool:
        owners = Counter(partition for member in members for partition in member.owned)
        return owners == Counter(f"{topic}:{number}" for topic in topics for number in range(6))

    def read_all() -> bool:
        return {value for member in (*members, *gone) for _, _, value in member.read} >= written

    until("three members share", lambda: owned_once("orders") and all(len(member.owned) == 2 for member in members))
    produce("orders", "first", "second")
    until("all is read", read_all)
    victim = members.pop()
    victim.end(victim.process.kill)
    gone.append(victim)
    produce("orders", "third")
    until("two members share", lambda: owned_once("orders"))
    until("all is read", read_all)
    millstream("topic", "create", "orders.eu", "-p", 6, "-r", 2)
    produce("orders.eu", "first")
    until("the topic that matches is shared", lambda: owned_once("orders", "orders.eu"))
    until("all is read", read_all)
    start_broker(running, tmp_path, registry, 3)
    produce("orders", "fourth")
    leaver = members.pop()
    leaver.end(leaver.process.terminate)
    gone.append(leaver)
    produce("orders.eu", "second")
    until("one member has all", lambda: owned_once("orders", "orders.eu"))
    until("all is read", read_all)
    for partition in {place for member in (*members, *gone) for place, _, _ in member.read}:
        offsets = {offset for member in (*members, *gone) for place, offset, _ in member.read if place == partition}
        assert offsets == set(range(max(offsets) + 1)), f"{partition} was read with gaps"


def test_a_member_that_left_is_followed_exactly_where_it_was(
    cluster: tuple[str, list[BrokerProcess], ExitStack],
) -> None:
    registry, brokers, _ = cluster
    millstream = Millstream(brokers[1].address)
    millstream("topic", "create", "orders")
    millstream("produce", "orders", stdin="a\nb\n")

    async def read(*, finishes: bool) -> list[bytes]:
        consumer = await RegistryConsumer.open(registry, "followers", topics=["orders"])
        async with consumer, aclosing(consumer.read()) as reads:
            found = [record.value or b"" for record in (await anext(reads)).records]
            if finishes:
                with pytest.raises(TimeoutError):  # There is no more, but asking says that this was finished.
                    await asyncio.wait_for(anext(reads), 0.5)
            return found

    assert asyncio.run(read(finishes=True)) == [b"a", b"b"]
    millstream("produce", "orders", stdin="more\n")
    assert asyncio.run(read(finishes=False)) == [b"more"]
    assert asyncio.run(read(finishes=True)) == [b"more"]


def test_a_root_without_a_cluster_is_refused(cluster: tuple[str, list[BrokerProcess], ExitStack]) -> None:
    nowhere = f"{cluster[0]}/nowhere"
    with pytest.raises(RegistryFailure, match=r"/nowhere: there is no cluster"):
        asyncio.run(RegistryConsumer.open(nowhere, "readers", topics=["orders"]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name topics, or a pattern"),
        ({"topics": ["a"], "include": "b"}, "one of the three"),
        ({"include": "("}, "is not a pattern of topics"),
        ({"topics": ["a"], "offset_reset": "first"}, "offset_reset='first': must be one of earliest, latest"),
        ({"topics": ["a"], "group": "a/b"}, "must be a name without slashes"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, object], said: str) -> None:
    async def make() -> None:
        tree = EmbeddedTree(call_soon=asyncio.get_running_loop().call_soon)
        arguments = {"group": "g", **options}
        with pytest.raises(ValueError, match=said.replace("(", r"\(")):
            RegistryConsumer(tree.session(), **arguments)  # type: ignore[arg-type]
        await tree.close()

    asyncio.run(make())
