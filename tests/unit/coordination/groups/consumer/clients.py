"""Consumers of one group as their clients would have them behave, over a machine in memory."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_protocol import NamedPartitions, Subscription, decode_assignment
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.codec import encode
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from millstream.protocol.messages.sync_group import SyncGroupRequest
from tests.unit.coordination.stage import Stage, Topics, counted_ids, topic_id_of

GROUP = "readers"
FENCING = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
REBALANCE_TIMEOUT_MS = 30_000

Partition = tuple[str, int]


def stage_of(topics: Topics, settings: Callable[[], GroupSettings] = GroupSettings) -> Stage:
    """A machine over these topics."""
    new_id = counted_ids()
    return Stage(lambda: GroupMachine(settings, topics, new_id, lambda _: None))


def group_of(stage: Stage, group_id: str = GROUP) -> ConsumerGroup:
    machine = stage.machine
    assert isinstance(machine, GroupMachine)
    group = machine.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def timers_of(stage: Stage) -> dict[Hashable, int]:
    """The timers of the group's members, and in how many milliseconds they go off."""
    return {key: after_ms for key, after_ms in stage.timers.items() if isinstance(key, tuple)}


def heartbeat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch, **fields)


def joining(member_id: str, *names: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A first heartbeat that subscribes to these topics."""
    told = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS, "topic_partitions": [], "subscribed_topic_names": list(names)}
    return heartbeat(member_id, 0, **(told | fields))


def listed(owned: Iterable[Partition]) -> list[TopicPartitions]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic_id=topic_id_of(topic), partitions=each) for topic, each in by_topic.items()]


def named(listed: Iterable[Any]) -> set[Partition]:
    """By the names that ``stage.Topics`` makes ids of."""
    return {(each.topic_id.rstrip(b"-").decode(), partition) for each in listed for partition in each.partitions}


class Consumer:
    """A client of the new protocol: it gives back what it is no longer given, and says so in its next heartbeat."""

    def __init__(self, stage: Stage, name: str, *topics: str, **told: Any) -> None:
        self._stage = stage
        self.member_id = name
        self.epoch = 0
        self.owned: set[Partition] = set()
        #: What it was given last, and has not taken or given back yet while it is slow.
        self.given: set[Partition] = set()
        self._is_news = True
        self._told = {"subscribed_topic_names": list(topics)} | told

    def subscribe(self, *topics: str) -> None:
        self._told = self._told | {"subscribed_topic_names": list(topics)}
        self._is_news = True

    def beat(self, *, is_slow: bool = False) -> ConsumerGroupHeartbeatResponse | None:
        """One heartbeat, and what follows from its answer, at once unless it is slow; None when it was fenced."""
        if not is_slow:
            self.settle()
        try:
            answer: ConsumerGroupHeartbeatResponse = self._stage.ask(self._request(), client_id=self.member_id)
        except ProtocolError as refusal:
            if refusal.code not in FENCING:
                raise
            self.owned, self.given = set(), set()
            self.epoch, self._is_news = 0, True
            return None
        self.epoch, self._is_news = answer.member_epoch, False
        if answer.assignment is not None:
            self.given = named(answer.assignment.topic_partitions)
            if not is_slow:
                self.settle()
        return answer

    def settle(self) -> None:
        """Have what it was given, and no more."""
        self._is_news = self._is_news or self.owned != self.given
        self.owned = set(self.given)

    def leave(self) -> None:
        self._stage.ask(heartbeat(self.member_id, -1))
        self.owned, self.given = set(), set()
        self.epoch, self._is_news = 0, True

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        fields: dict[str, Any] = {}
        if self.epoch == 0:
            fields = {"rebalance_timeout_ms": REBALANCE_TIMEOUT_MS} | self._told
        elif self._is_news:
            fields = {"subscribed_topic_names": self._told["subscribed_topic_names"]}
        if self._is_news:
            fields["topic_partitions"] = listed(self.owned)
        return heartbeat(self.member_id, self.epoch, **fields)


class ClassicConsumer:
    """A client of the classic protocol, cooperative: it joins when told to, with what it has, and then syncs."""

    def __init__(self, stage: Stage, *topics: str, instance_id: str | None = None, session_ms: int = 10_000) -> None:
        self._stage = stage
        self._topics = topics
        self._instance_id = instance_id
        self._session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.owned: set[Partition] = set()
        #: What its assignor remembers.
        self.user_data: bytes | None = None

    def join_request(self) -> JoinGroupRequest:
        owned = [NamedPartitions(topic=topic, partitions=[partition]) for topic, partition in sorted(self.owned)]
        subscription = Subscription(
            topics=list(self._topics),
            user_data=self.user_data,
            owned_partitions=owned,
            generation_id=self.generation,
            rack_id=None,
        )
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x03" + encode(subscription, 3))],
        )

    def join(self) -> None:
        """Join, and ask for what it has; what it is not given any more it gives back, and joins again."""
        answer = self._stage.ask(self.join_request())
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._stage.ask(self.join_request())
        assert answer.error_code == ErrorCode.NONE
        self.member_id, self.generation, self.protocol = answer.member_id, answer.generation_id, answer.protocol_name
        self.sync()

    def sync(self) -> None:
        answer = self._stage.ask(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type="consumer",
                protocol_name=self.protocol,
                assignments=[],
            )
        )
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        partitions = decode_assignment(answer.assignment).assigned_partitions
        self.owned = {(each.topic, partition) for each in partitions for partition in each.partitions}

    def beat(self) -> ErrorCode:
        answer = self._stage.ask(
            HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
            )
        )
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        return code
