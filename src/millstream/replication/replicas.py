"""Every partition this broker holds, and what the controller tells it to do with them."""

import logging
from collections.abc import Callable, Iterable, Iterator

from millstream.config.topic import TopicConfig
from millstream.metrics.metric import Metrics
from millstream.metrics.traffic import TopicTraffic
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import INTERNAL_TOPICS, ZERO_UUID, TopicPartition, Uuid
from millstream.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from millstream.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from millstream.replication.partition import Partition
from millstream.replication.purgatory import Purgatory
from millstream.replication.role import Leadership
from millstream.storage.log import Log
from millstream.storage.manager import Logs

logger = logging.getLogger(__name__)


class Replicas:
    """Partitions by topic and index, made and unmade as the controller says; stale orders change nothing."""

    def __init__(
        self,
        broker_id: int,
        logs: Logs,
        purgatory: Purgatory,
        topic_config: Callable[[str], TopicConfig],
        high_watermarks: dict[TopicPartition, int],
        metrics: Metrics,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.controller_epoch = 0
        #: This broker's latest registration that a controller knew of when it said what to lead and follow.
        self.told_epoch = -1
        #: Called when the controller has given a partition a part, or taken it away.
        self.on_role: Callable[[Partition], None] = lambda partition: None
        #: Called when a partition's in-sync set may have to change.
        self.on_in_sync: Callable[[Partition], None] = lambda partition: None
        self._logs = logs
        self._purgatory = purgatory
        self._topic_config = topic_config
        self._metrics = metrics
        self._high_watermarks = high_watermarks  # As checkpointed, until a partition takes its own over.
        self._topics: dict[str, dict[int, Partition]] = {}
        self._names: dict[Uuid, str] = {}

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def find(self, topic: str, index: int) -> Partition:
        """The partition, or the refusal: it is not here."""
        partitions = self._topics.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{index} is not on this broker")
        return partition

    def find_for_client(self, topic: str, index: int) -> Partition:
        """As ``find``, for clients that change something: internal topics are changed by coordinators alone."""
        if topic in INTERNAL_TOPICS:
            raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker alone")
        return self.find(topic, index)

    def of_topic(self, topic: str) -> list[Partition]:
        """Every partition of the topic that is here."""
        return list(self._topics.get(topic, {}).values())

    def topic_name(self, topic_id: Uuid) -> str:
        """The topic of that id, or the refusal: there is none."""
        name = self._names.get(topic_id)
        if name is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic here has that id")
        return name

    def stable_offset(self, topic_partition: TopicPartition) -> int:
        """Below it the partition's records are settled; 0 for a partition that has no role yet."""
        partition = self._topics.get(topic_partition.topic, {}).get(topic_partition.partition)
        return 0 if partition is None else partition.last_stable_offset

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """What the next checkpoint should say; partitions not yet taken over keep their old mark."""
        return self._high_watermarks | {partition.topic_partition: partition.high_watermark for partition in self}

    def give_up(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Have no part in these any more, for their logs have failed; whoever waits for them is told."""
        for topic, index in topic_partitions:
            partition = self._topics.get(topic, {}).get(index)
            if partition is not None and partition.is_offline:
                partition.retire()
                self.on_role(partition)

    # The controller's orders.

    def follow(self, order: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead or follow each partition as ordered."""
        stale = self.staleness(order.controller_epoch, order.broker_epoch)
        if stale is not None:
            return LeaderAndIsrResponse(error_code=stale)
        self.controller_epoch = order.controller_epoch
        self.told_epoch = max(self.told_epoch, order.broker_epoch)
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(
                            partition_index=state.partition_index,
                            error_code=_code_of(self._follow_one, topic.topic_name, topic.topic_id, state),
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in order.topic_states
            ]
        )

    def stop(self, order: StopReplicaRequest) -> StopReplicaResponse:
        """Give up each partition as ordered, and its log where that is ordered too."""
        stale = self.staleness(order.controller_epoch, order.broker_epoch)
        if stale is not None:
            return StopReplicaResponse(error_code=stale)
        self.controller_epoch = order.controller_epoch
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(
                    topic_name=topic.topic_name,
                    partition_index=state.partition_index,
                    error_code=_code_of(
                        self._stop_one,
                        TopicPartition(topic.topic_name, state.partition_index),
                        topic.topic_id,
                        state.leader_epoch,
                        state.delete_partition,
                    ),
                )
                for topic in order.topic_states
                for state in topic.partition_states
            ]
        )

    def staleness(self, controller_epoch: int, broker_epoch: int) -> ErrorCode | None:
        """Why an order is too old to be followed: of a controller of before, or to this broker in an earlier life.

        A newer life than we know of is our own: the controller may hear of a registration before we do.
        """
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if -1 < broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return None

    def _follow_one(self, topic: str, topic_id: Uuid, state: LeaderAndIsrPartitionState) -> ErrorCode:
        partition = self._topics.get(topic, {}).get(state.partition_index)
        if partition is None:
            partition = self._make(TopicPartition(topic, state.partition_index), topic_id, is_new=state.is_new)
        elif topic_id not in (ZERO_UUID, partition.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        told = Leadership(
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=tuple(state.replicas),
            adding=tuple(state.adding_replicas),
            eligible=tuple(state.eligible_replicas),
        )
        code = partition.follow(told)
        if code is ErrorCode.NONE:
            self.on_role(partition)
            self._look_at_eligible(partition)
        return code

    def _make(self, topic_partition: TopicPartition, topic_id: Uuid, *, is_new: bool) -> Partition:
        log = self._log_of(topic_partition, topic_id, is_new=is_new)
        high_watermark = 0 if log is None else self._high_watermarks.pop(topic_partition, 0)
        traffic = TopicTraffic(self._metrics, topic_partition.topic)
        partition = Partition(topic_partition, topic_id, self.broker_id, log, self._purgatory, high_watermark, traffic)
        partition.on_in_sync = self._in_sync_may_change
        self._topics.setdefault(topic_partition.topic, {})[topic_partition.partition] = partition
        if topic_id != ZERO_UUID:
            self._names[topic_id] = topic_partition.topic
        return partition

    def configure(self, topic: str, config: TopicConfig) -> None:
        """A topic's settings have changed; for one, fewer of its replicas may have to be in sync."""
        for partition in self.of_topic(topic):
            if partition.log is not None:
                partition.log.settle()  # Under those with which it was begun.
                partition.log.config = config
            partition.in_sync_changed()
            self._look_at_eligible(partition)

    def _look_at_eligible(self, partition: Partition) -> None:
        if partition.role.leading is not None and partition.role.leading.eligible:
            self.on_in_sync(partition)

    def _in_sync_may_change(self, partition: Partition) -> None:
        self.on_in_sync(partition)

    def _log_of(self, topic_partition: TopicPartition, topic_id: Uuid, *, is_new: bool) -> Log | None:
        """The partition's log, made where there never was one; None while it is, or may be, in an offline directory."""
        config = self._topic_config(topic_partition.topic)
        try:
            log = self._logs.get(topic_partition, topic_id)
            if log is None:
                return self._logs.create(topic_partition, topic_id, config, is_new=is_new)
            log.settle()
            log.config = config
            return log
        except ProtocolError as refusal:
            assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
            return None

    def _stop_one(self, key: TopicPartition, topic_id: Uuid, leader_epoch: int, delete: bool) -> ErrorCode:
        topic, index = key
        partitions = self._topics.get(topic, {})
        partition = partitions.get(index)
        held = self._logs.get(key) if partition is None else partition
        if held is not None and topic_id != held.topic_id and ZERO_UUID not in (topic_id, held.topic_id):
            return ErrorCode.NONE  # An order that comes late: what it means is gone, and another has the name.
        if partition is None:
            if delete:  # It was stopped before, or its topic was doomed already when this broker started.
                self._logs.delete(key)
            return ErrorCode.NONE
        if 0 <= leader_epoch < partition.role.leadership.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        partition.retire()
        self.on_role(partition)
        del partitions[index]
        if not partitions:
            del self._topics[topic]
            self._names.pop(partition.topic_id, None)
            self._metrics.forget(topic=topic)
        if delete:
            self._logs.delete(key)
        else:  # It may be given a part again, in this life or the next.
            self._high_watermarks[key] = partition.high_watermark
        return ErrorCode.NONE


def _code_of(obey: Callable[..., ErrorCode], *order: object) -> ErrorCode:
    """What came of an order for one partition; one partition's failure, even by a bug of ours, is its own."""
    try:
        return obey(*order)
    except ProtocolError as refusal:
        return refusal.code
    except Exception:
        logger.exception("an order of the controller could not be carried out: %s", order)
        return ErrorCode.UNKNOWN_SERVER_ERROR
