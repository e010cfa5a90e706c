"""Changes as transactions that a registry takes."""

from millstream.controller.context import Context, StateDecided, TopicCreated
from millstream.controller.writes import BYTES_PER_MULTI, WRITES_PER_MULTI, fence, transactions
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import PartitionState
from millstream.registry.tree import Create, Op

CONTEXT = Context(1, epoch=3, epoch_version=2)
#: What ZooKeeper takes in one request, unless it is told otherwise (jute.maxbuffer).
REQUEST_BYTES_MAX = 0xFFFFF


def size(ops: list[Op]) -> int:
    """At most what they take on the wire."""
    return sum(len(op.path) + len(op.data) + 100 for op in ops if isinstance(op, Create))


def states(count: int, topic: str, isr: tuple[int, ...]) -> list[StateDecided]:
    return [StateDecided(TopicPartition(topic, at), PartitionState(1, 0, isr, 3)) for at in range(count)]


def test_a_few_changes_are_one_transaction_behind_the_fence() -> None:
    (ops,) = transactions(CONTEXT, states(3, "orders", (1, 2)))
    assert ops[0] == fence(CONTEXT)
    assert len(ops) == 1 + 3 * 2


def test_nothing_is_no_transaction() -> None:
    assert list(transactions(CONTEXT, [])) == []


def test_no_transaction_holds_more_writes_than_one_may() -> None:
    made = list(transactions(CONTEXT, states(WRITES_PER_MULTI, "o", (1,))))
    assert [len(ops) - 1 for ops in made] == [WRITES_PER_MULTI] * 2


def test_no_transaction_is_larger_than_zookeeper_takes() -> None:
    """Topics' names may be long and replicas many: far fewer writes than one transaction may hold are a megabyte."""
    changes = states(1_500, "t" * 249, tuple(range(100, 140)))
    made = list(transactions(CONTEXT, changes))
    assert all(ops[0] == fence(CONTEXT) and size(ops) < REQUEST_BYTES_MAX for ops in made)
    assert sum(len(ops) - 1 for ops in made) == 2 * len(changes)
    assert len(made) < 5


def test_what_one_change_needs_stays_together_however_large_it_is() -> None:
    large = TopicCreated("large", bytes(16), dict.fromkeys(range(40000), (1, 2, 3)), {})
    first, second, third = transactions(CONTEXT, [*states(1, "a", (1,)), large, *states(1, "b", (1,))])
    assert (len(first), len(second), len(third)) == (3, 4, 3)
    assert size(second) > BYTES_PER_MULTI
