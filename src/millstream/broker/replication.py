"""The broker's part in replication: what it fetches from other leaders, and whom it counts as in sync."""

from typing import TYPE_CHECKING

from millstream.config import cluster
from millstream.config import replication as settings
from millstream.metrics.throttle import Throttle
from millstream.replication.following.fetcher import FetchSettings
from millstream.replication.following.followers import Followers
from millstream.replication.in_sync import InSync
from millstream.replication.partition import Partition

if TYPE_CHECKING:
    from millstream.broker.broker import Broker


class Replication:
    """Both sides of it: this broker as a follower and as a leader."""

    def __init__(self, broker: "Broker") -> None:
        config = broker.settings.config
        self._broker = broker
        self.followers = Followers(
            broker.id,
            broker.replicas,
            broker.channels,
            broker.clock,
            broker.workers,
            FetchSettings(
                wait_ms_max=config.get(settings.REPLICA_FETCH_WAIT_MAX_MS),
                bytes_min=config.get(settings.REPLICA_FETCH_MIN_BYTES),
                partition_bytes_max=config.get(settings.REPLICA_FETCH_MAX_BYTES),
                response_bytes_max=config.get(settings.REPLICA_FETCH_RESPONSE_MAX_BYTES),
                backoff_ms_max=config.get(settings.REPLICA_FETCH_BACKOFF_MS),
                timeout_ms=config.get(settings.REPLICA_SOCKET_TIMEOUT_MS),
                throttle=Throttle(lambda: broker.settings.config.get(cluster.FOLLOWER_REPLICATION_THROTTLED_RATE)),
            ),
            broker.company,
        )
        self.in_sync = InSync(
            broker.id,
            broker.replicas,
            broker.ask_controller,
            broker.clock,
            lambda: broker.settings.config.get(settings.REPLICA_LAG_TIME_MAX_MS),
        )

    def start(self) -> None:
        """Follow whatever the controller says from now on."""
        self._broker.replicas.on_role = self._role_changed
        self.in_sync.start()

    async def stop(self) -> None:
        """Follow nothing any more; may be called again."""
        self._broker.replicas.on_role = self._broker.coordinators.role_changed
        await self.followers.stop()
        await self.in_sync.stop()

    def _role_changed(self, partition: Partition) -> None:
        self.followers.role_changed(partition)
        self._broker.coordinators.role_changed(partition)
