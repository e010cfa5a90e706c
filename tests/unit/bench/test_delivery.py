"""The loads of offsets, transactions and groups, at their smallest, against a broker."""

import asyncio
from collections.abc import Iterator

import pytest
from bench import delivery, runner, wire
from bench.members import CLASSIC, CONSUMER, Group
from bench.servers import Millstream

from tests.compatibility import apache_kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Millstream]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    server = Millstream(tmp_path_factory.mktemp("broker") / "data", settings)
    server.start()
    yield server
    server.stop()


def test_commits_and_transactions_are_counted_and_found_again(broker: Millstream) -> None:
    commits = runner.begin("raw_commits", broker, topic="commits", commits=20, warm_up=5)
    transactions = [
        runner.begin(load, broker, topic=load, transactions=5, warm_up=1, records=8)
        for load in delivery.TRANSACTIONS.values()
        if load != delivery.JAVA_TRANSACTIONS or not apache_kafka.missing()
    ]
    assert runner.finish(commits)["commits_per_s"] > 0
    for load in transactions:
        assert runner.finish(load)["transactions_per_s"] > 0


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_members_agree_again_when_one_joins(broker: Millstream, protocol: str) -> None:
    with wire.Connection(broker.address) as connection:
        connection.create_topic("read", partitions=4)
        connection.await_topic("read")

    async def story() -> list[list[int]]:
        group = Group(broker.address, f"members-{protocol}", "read", 4, protocol=protocol, heartbeat_s=0.05)
        try:
            await group.add(1)
            await group.settled()
            assert [member.held for member in group.members] == [[0, 1, 2, 3]]
            if protocol == CLASSIC:  # The server has the others beat only every few seconds.
                await group.add(1)
                await group.settled()
            return [member.held for member in group.members]
        finally:
            group.close()

    held = asyncio.run(story())
    assert sorted(partition for each in held for partition in each) == [0, 1, 2, 3]
    assert all(held)
