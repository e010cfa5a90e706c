"""Creating and widening topics: Kafka's checks, the placement, and the first leaders.

Pure: a request and the context in; results, and a decision that is not replayed yet, out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from millstream.config.topic import check_topic_overrides
from millstream.controller.context import (
    Change,
    Context,
    PartitionsAdded,
    StateDecided,
    TopicCreated,
    TopicIdGiven,
    shape,
)
from millstream.controller.elections import initial
from millstream.controller.interface import DEFAULT, ControllerSettings, MorePartitions, NewTopic, TopicResult
from millstream.controller.placement import place
from millstream.controller.requests import Decision, Lead
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import INTERNAL_TOPICS, ZERO_UUID, TopicPartition, Uuid, topic_name_fault, uuid_text
from millstream.registry.nodes import PartitionState

#: As Kafka's: one request must not be able to fill the registry.
PARTITIONS_PER_REQUEST_MAX = 10_000


class Dice(Protocol):
    """Where chance comes from; random.Random is one."""

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, count: int, /) -> bytes: ...


def new_topic_id(names_by_id: Mapping[Uuid, str], dice: Dice) -> Uuid:
    """A random uuid (version 4) that no topic has; none whose text looks like an option, as Kafka has it."""
    while True:
        raw = bytearray(dice.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if topic_id not in names_by_id and not uuid_text(topic_id).startswith("-"):
            return topic_id


def create_topics(
    context: Context, asked: Sequence[NewTopic], settings: ControllerSettings, dice: Dice
) -> tuple[Decision, list[TopicResult]]:
    """One topic's refusal never spoils another's creation."""
    decision, results = Decision(), []
    shapes = dict(context.names_by_shape) if len(asked) > 1 else context.names_by_shape
    repeated = _repeated(topic.name for topic in asked)
    budget = PARTITIONS_PER_REQUEST_MAX
    for topic in asked:
        try:
            if topic.name in repeated:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")
            if _is_there(context, topic):
                results.append(_result(topic.name, topic.topic_id, context.topics[topic.name].assignment().partitions))
                continue
            _check_name(context, shapes, topic.name)
            replicas = _replicas_of_new(context, topic, settings, dice, budget)
            configs = _configs(topic)
        except ProtocolError as error:
            results.append(_refusal(topic.name, error))
            continue
        budget -= len(replicas)
        if len(asked) > 1:
            shapes[shape(topic.name)] = topic.name
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else new_topic_id(context.names_by_id, dice)
        decision.changes.append(TopicCreated(topic.name, topic_id, replicas, configs))
        _elect_first_leaders(context, topic.name, replicas, decision)
        results.append(_result(topic.name, topic_id, replicas))
    return decision, results


def give_topic_ids(context: Context, dice: Dice) -> Decision:
    """Topics that have no id get one."""
    nameless = [name for name, topic in context.topics.items() if topic.topic_id == ZERO_UUID]
    return Decision([TopicIdGiven(name, new_topic_id(context.names_by_id, dice)) for name in nameless])


def add_partitions(context: Context, asked: Sequence[MorePartitions]) -> tuple[Decision, list[TopicResult]]:
    """Widen topics; the partitions they have stay as they are."""
    decision, results = Decision(), []
    repeated = _repeated(topic.name for topic in asked)
    budget = PARTITIONS_PER_REQUEST_MAX
    for topic in asked:
        try:
            if topic.name in repeated:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named more than once")
            if topic.name in INTERNAL_TOPICS:  # A key's partition is its hash by their number.
                raise ProtocolError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"the partitions of {topic.name} stay as many as they are"
                )
            replicas = _replicas_added(context, topic, budget)
        except ProtocolError as error:
            results.append(_refusal(topic.name, error))
            continue
        budget -= len(replicas)
        decision.changes.append(PartitionsAdded(topic.name, replicas))
        _elect_first_leaders(context, topic.name, replicas, decision)
        results.append(TopicResult(topic.name, context.topics[topic.name].topic_id, num_partitions=topic.count))
    return decision, results


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _is_there(context: Context, topic: NewTopic) -> bool:
    """Whether this very creation was carried out before."""
    there = context.topics.get(topic.name)
    return there is not None and there.topic_id == topic.topic_id != ZERO_UUID and topic.name not in context.doomed


def _result(name: str, topic_id: Uuid, replicas: Mapping[int, Sequence[int]]) -> TopicResult:
    return TopicResult(
        name, topic_id, num_partitions=len(replicas), replication_factor=len(next(iter(replicas.values())))
    )


def _refusal(name: str, error: ProtocolError) -> TopicResult:
    return TopicResult(name, error_code=error.code, error_message=error.detail or None)


def _check_name(context: Context, shapes: Mapping[str, str], name: str) -> None:
    fault = topic_name_fault(name)
    if fault is not None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name in context.doomed:
        raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} is still being deleted")
    if name in context.topics:
        raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    other = shapes.get(shape(name))
    if other is not None:
        raise ProtocolError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} collides with {other!r}: '.' and '_' count as the same"
        )


def _configs(topic: NewTopic) -> dict[str, str]:
    configs = {}
    for name, value in topic.configs.items():
        if value is None:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} has no value")
        configs[name] = value
    check_topic_overrides(configs)
    return configs


def _replicas_of_new(
    context: Context, topic: NewTopic, settings: ControllerSettings, dice: Dice, budget: int
) -> Mapping[int, tuple[int, ...]]:
    if topic.assignments:
        if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST, "partitions and replication factor must be -1 where replicas are assigned"
            )
        if sorted(topic.assignments) != list(range(len(topic.assignments))):
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions assigned must be 0, 1, 2 … without gaps"
            )
        _check_budget(len(topic.assignments), budget)
        replicas = {number: tuple(topic.assignments[number]) for number in sorted(topic.assignments)}
        _check_assignment(context, list(replicas.values()), len(replicas[0]))
        return replicas
    count = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    if count < 1:
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, f"a topic has at least 1 partition, {count} were asked for")
    _check_budget(count, budget)
    _check_factor(context, factor)
    brokers = len(context.brokers)
    return place(_racks(context), range(count), factor, dice.randrange(brokers), dice.randrange(brokers))


def _replicas_added(context: Context, topic: MorePartitions, budget: int) -> Mapping[int, tuple[int, ...]]:
    known = context.topics.get(topic.name)
    if known is None or known.is_doomed:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic.name!r}")
    if any(partition.adding or partition.removing for partition in known.partitions.values()):
        raise ProtocolError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"the partitions of {topic.name!r} are being moved")
    before = len(known.partitions)
    if topic.count <= before:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS, f"topic {topic.name!r} has {before} partitions, {topic.count} is not more"
        )
    added = range(before, topic.count)
    _check_budget(len(added), budget)
    first = known.partitions[0].replicas
    if topic.assignments is not None:
        if len(topic.assignments) != len(added):
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{len(added)} partitions are added, but replicas assigned for {len(topic.assignments)}",
            )
        replicas = [tuple(each) for each in topic.assignments]
        _check_assignment(context, replicas, len(first))
        return dict(zip(added, replicas, strict=True))
    _check_factor(context, len(first))
    brokers = sorted(context.brokers)
    # Go on round the brokers as if the topic had been this wide from the start.
    start = next((place_ for place_, broker in enumerate(brokers) if broker >= first[0]), 0)
    return place(_racks(context), added, len(first), start, start)


def _racks(context: Context) -> dict[int, str | None]:
    return {broker_id: broker.registration.rack for broker_id, broker in context.brokers.items()}


def _check_budget(count: int, budget: int) -> None:
    if count > budget:
        raise ProtocolError(
            ErrorCode.POLICY_VIOLATION, f"one request creates at most {PARTITIONS_PER_REQUEST_MAX} partitions"
        )


def _check_factor(context: Context, factor: int) -> None:
    if factor < 1:
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"the replication factor is at least 1, {factor} was asked for"
        )
    if factor > len(context.brokers):
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} is more than the {len(context.brokers)} brokers that are alive",
        )


def _check_assignment(context: Context, assigned: Sequence[Sequence[int]], factor: int) -> None:
    for replicas in assigned:
        fault = None
        if not replicas:
            fault = "a partition is assigned no replica"
        elif len(set(replicas)) != len(replicas):
            fault = f"replicas {list(replicas)} name a broker twice"
        elif len(replicas) != factor:
            fault = f"replicas {list(replicas)} are not {factor}, as the topic's other partitions have"
        else:
            fault = context.absence(replicas)
        if fault is not None:
            raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)


def _elect_first_leaders(
    context: Context, name: str, replicas_of: Mapping[int, tuple[int, ...]], decision: Decision
) -> None:
    for number, replicas in replicas_of.items():
        elected = initial(replicas, context.brokers)
        assert elected is not None, "only live brokers are assigned"
        key = TopicPartition(name, number)
        decision.changes.append(first_state(context, key, elected.leader, elected.isr))
        decision.leads.append(Lead(key, elected.isr, is_new=True))
        decision.announced.append(key)


def first_state(context: Context, key: TopicPartition, leader: int, isr: tuple[int, ...]) -> Change:
    """A new partition's first leader, at epoch 0."""
    return StateDecided(key, PartitionState(leader, 0, isr, context.epoch))
