"""The loads of offsets, transactions and groups, at their smallest, against a broker."""

import asyncio
from collections.abc import Iterator

import pytest
from bench import delivery, runner, wire
from bench.members import CLASSIC, CONSUMER, Group
from bench.servers import Millstream


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Millstream]:
    settings = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}
    server = Millstream(tmp_path_factory.mktemp("broker") / "data", settings)
    server.start()
    yield server
    server.stop()


def test_commits_and_transactions_are_counted_and_found_again(broker: Millstream) -> None:
    commits = runner.begin("raw_commits", broker, topic="commits", commits=20, warm_up=5)
    transactions = runner.begin("raw_transactions", broker, topic="transactions", transactions=5, records=8)
    assert runner.finish(commits)["commits_per_s"] > 0
    assert runner.finish(transactions)["transactions_per_s"] > 0


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


def test_every_row_has_a_key_of_its_own() -> None:
    assert len({row.key for row in delivery.ROWS}) == len(delivery.ROWS)
