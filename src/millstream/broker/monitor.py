"""How a broker is watched: what its metrics read from it, and the listener that shows them."""

from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from millstream.config.listeners import Listener
from millstream.metrics import table
from millstream.metrics.metric import Labels, Metric
from millstream.metrics.prometheus import CONTENT_TYPE, lines
from millstream.net.http import HttpPeer, Page, pages_handler, plain
from millstream.net.network import Network, Server
from millstream.protocol.messages.update_metadata import UpdateMetadataPartitionState
from millstream.replication.partition import Partition
from millstream.replication.role import Part
from millstream.storage.log import Log

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

NO_LEADER = -1


class Monitor:
    """A broker's gauges, read when someone looks; and, where a listener is wanted, its pages."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._peers: set[HttpPeer] = set()
        self._server: Server | None = None
        read = broker.metrics.read
        read(table.CONNECTIONS, lambda: len(broker.connections))
        read(table.BROKERS, lambda: len(broker.cluster.brokers))
        read(table.PARTITION_COUNT, lambda: sum(1 for _ in broker.replicas))
        read(table.LEADER_COUNT, lambda: len(self._led()))
        read(table.UNDER_REPLICATED_PARTITIONS, lambda: sum(map(is_under_replicated, self._led())))
        read(table.ACTIVE_CONTROLLER_COUNT, lambda: int(broker.controller.is_active))
        read(table.UNDER_MIN_ISR_PARTITION_COUNT, partial(self._count_led, _is_under_min))
        read(table.AT_MIN_ISR_PARTITION_COUNT, partial(self._count_led, _is_at_min))
        read(table.REASSIGNING_PARTITIONS, lambda: sum(bool(each.role.leadership.adding) for each in self._led()))
        read(table.OFFLINE_PARTITIONS_COUNT, partial(self._count_all, lambda state: state.leader == NO_LEADER))
        read(table.PREFERRED_REPLICA_IMBALANCE_COUNT, partial(self._count_all, _is_misled))
        read(table.GLOBAL_PARTITION_COUNT, partial(self._count_all, lambda state: True))
        read(table.GLOBAL_TOPIC_COUNT, lambda: len(broker.cluster.topics) if broker.controller.is_active else 0)
        for metric, value in PER_PARTITION.items():
            read(metric, partial(self._each_led, value))

    async def listen(self, network: Network, at: Listener) -> Listener:
        """Show the pages there; the place itself, once the port is known."""
        pages = {"/metrics": self._metrics, "/health/live": self._live, "/health/ready": self._ready}
        self._server = await network.listen(lambda: HttpPeer(pages_handler(pages), self._peers), at.host, at.port)
        await self._server.start_serving()
        return at._replace(port=self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Show nothing any more."""
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers):
            peer.close()

    # Pages.

    def _metrics(self) -> Page:
        return Page(HTTPStatus.OK, CONTENT_TYPE, lines(self._broker.metrics))

    def _live(self) -> Page:
        return plain(HTTPStatus.OK)  # Whoever can answer lives.

    def _ready(self) -> Page:
        """Whether clients are served: this broker is known to its controller, and has a disk to write to."""
        broker = self._broker
        is_ready = broker.id in broker.cluster.brokers and any(
            directory.failure is None for directory in broker.logs.directories
        )
        return plain(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

    # Readings.

    def _led(self) -> list[Partition]:
        return [partition for partition in self._broker.replicas if partition.role.part is Part.LEADER]

    def _each_led(self, value: Callable[[Partition, Log], float]) -> Iterator[tuple[Labels, float]]:
        for partition in self._led():
            name, log = partition.topic_partition, partition.log
            if log is not None and not log.is_offline:
                yield (name.topic, str(name.partition)), value(partition, log)

    def _count_led(self, is_counted: Callable[[Partition, Log], bool]) -> int:
        return sum(is_counted(each, each.log) for each in self._led() if each.log is not None)

    def _count_all(self, is_counted: Callable[[UpdateMetadataPartitionState], bool]) -> int:
        """Partitions of the cluster, by the controller alone; elsewhere it is 0, as in Kafka."""
        if not self._broker.controller.is_active:
            return 0
        topics = self._broker.cluster.topics.values()
        return sum(is_counted(state) for topic in topics for state in topic.partitions.values())


def is_under_replicated(partition: Partition) -> bool:
    """Whether fewer replicas are in sync than assigned; those it is being moved to may take their time."""
    leadership = partition.role.leadership
    return len(leadership.isr) < len(leadership.replicas) - len(leadership.adding)


def _in_sync(partition: Partition) -> int:
    return len(partition.role.leadership.isr)


def _least(partition: Partition, log: Log) -> int:
    """How many replicas must be in sync; all of them where there are fewer than min.insync.replicas asks."""
    return min(log.config.min_insync_replicas, len(partition.role.leadership.replicas))


def _is_under_min(partition: Partition, log: Log) -> bool:
    return _in_sync(partition) < _least(partition, log)


def _is_at_min(partition: Partition, log: Log) -> bool:
    return _in_sync(partition) == _least(partition, log)


def _is_misled(state: UpdateMetadataPartitionState) -> bool:
    return bool(state.replicas) and state.leader != state.replicas[0]


#: What is told of each partition that this broker leads.
PER_PARTITION: dict[Metric, Callable[[Partition, Log], float]] = {
    table.LOG_SIZE: lambda _, log: log.size_bytes,
    table.PARTITION_CURRENT_OFFSET: lambda partition, _: partition.high_watermark,
    table.PARTITION_OLDEST_OFFSET: lambda _, log: log.start_offset,
    table.PARTITION_IN_SYNC_REPLICA: lambda partition, _: _in_sync(partition),
    table.PARTITION_UNDER_REPLICATED: lambda partition, _: is_under_replicated(partition),
    table.UNDER_MIN_ISR: _is_under_min,
    table.AT_MIN_ISR: _is_at_min,
}
