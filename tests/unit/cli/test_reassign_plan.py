"""Plans as they are told, and those that are refused."""

import pytest

from millstream.cli.failure import CommandFailed
from millstream.cli.reassign.plan import check_room, print_plan
from millstream.model.ids import TopicPartition

PLACED = {TopicPartition("few", 0): [1], TopicPartition("orders", 0): [1, 2, 4]}


@pytest.mark.parametrize(
    ("brokers", "alive", "replicas", "why"),
    [
        (
            {2, 4},
            {2, 4},
            None,
            "topic 'orders' has replication factor 3: only 2 brokers can take replicas (2, 4); down: 1; "
            "-r N would choose another",
        ),
        (
            {1},
            {1, 2, 4},
            None,
            "topic 'orders' has replication factor 3: only 1 broker can take replicas (1); -r N would choose another",
        ),
        (
            {1, 2, 3, 4},
            {1, 2, 3, 4},
            5,
            "-r 5 asks for 5 replicas: only 4 brokers can take replicas (1, 2, 3, 4)",
        ),
        ({4}, {4}, 2, "-r 2 asks for 2 replicas: only 1 broker can take replicas (4); down: 1, 2"),
    ],
)
def test_replicas_for_which_there_are_too_few_brokers_are_refused(
    brokers: set[int], alive: set[int], replicas: int | None, why: str
) -> None:
    with pytest.raises(CommandFailed) as caught:
        check_room(PLACED, brokers, alive, replicas)
    assert str(caught.value) == why
    assert caught.value.exit_code == 2


def test_fewer_replicas_may_be_asked_for_and_a_broker_that_is_down_replaced() -> None:
    check_room(PLACED, {1, 2}, {1, 2, 3, 4}, 2)
    check_room(PLACED, {1, 2, 3}, {1, 2, 3}, None)


def test_one_is_not_many(capsys: pytest.CaptureFixture[str]) -> None:
    one, other = PLACED
    for changed, told in (
        ({one: [3]}, "1 of 2 partitions changes, 1 replica is copied"),
        ({one: [1], other: [3, 1, 5]}, "2 of 2 partitions change, 2 replicas are copied"),
    ):
        print_plan(PLACED, changed)
        assert capsys.readouterr().out.splitlines()[-1] == told
