"""What this broker follows: fetchers for each leader, begun with their first partition and ended with their last."""

import asyncio
import logging
from collections.abc import Iterator

from millstream.model.clock import Clock
from millstream.model.ids import TopicPartition
from millstream.model.workers import Workers
from millstream.net.channels import PostingChannels
from millstream.replication.company import Company
from millstream.replication.following.fetcher import Fetcher, FetchSettings
from millstream.replication.following.lanes import Lane
from millstream.replication.following.place import State
from millstream.replication.partition import Partition
from millstream.replication.replicas import Replicas
from millstream.replication.role import NO_LEADER, Part

logger = logging.getLogger(__name__)


class Followers:
    """Every partition that this broker follows, and where its records come from."""

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        channels: PostingChannels,
        clock: Clock,
        workers: Workers,
        settings: FetchSettings,
        company: Company,
    ) -> None:
        """``channels`` give fetches a connection of their own: a leader keeps them, and answers in order."""
        self._broker_id = broker_id
        self._replicas = replicas
        self._channels = channels
        self._clock = clock
        self._workers = workers
        self._settings = settings
        self._company = company
        self._fetchers: dict[tuple[int, Lane], Fetcher] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Who fetches a partition, which one it is, and under which leader epoch.
        self._followed: dict[TopicPartition, tuple[Fetcher, Partition, int]] = {}
        self._is_stopped = False

    def role_changed(self, partition: Partition) -> None:
        """The controller gave the partition a part, or took it away."""
        leader = partition.role.leadership.leader
        if partition.role.part is Part.FOLLOWER and leader not in (NO_LEADER, self._broker_id):
            self.follow(partition)
        else:
            self.unfollow(partition)

    def follow(self, partition: Partition) -> None:
        """Fetch the partition from its leader; nothing changes when that is done already."""
        leadership = partition.role.leadership
        known = self._followed.get(partition.topic_partition)
        if known is not None and known[1:] == (partition, leadership.leader_epoch):
            return
        self.unfollow(partition)
        if self._is_stopped or partition.is_offline:
            return
        self._follow_in(Lane.KEEPING_UP, partition)

    def unfollow(self, partition: Partition) -> None:
        """Fetch the partition no more, whatever is under way."""
        known = self._followed.pop(partition.topic_partition, None)
        if known is not None:
            known[0].remove(known[1])

    def _follow_in(self, lane: Lane, partition: Partition) -> None:
        leadership = partition.role.leadership
        fetcher = self._fetchers.get((leadership.leader, lane))
        is_new = fetcher is None
        if fetcher is None:
            fetcher = self._fetchers[leadership.leader, lane] = Fetcher(
                self._broker_id,
                leadership.leader,
                lane,
                self._channels,
                self._clock,
                self._workers,
                self._settings,
                self._company,
                lambda: self._replicas.broker_epoch,
                self._belongs,
            )
        fetcher.add(partition)
        self._followed[partition.topic_partition] = (fetcher, partition, leadership.leader_epoch)
        if is_new:
            task = asyncio.get_running_loop().create_task(self._run(fetcher))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _belongs(self, partition: Partition, lane: Lane) -> None:
        """A fetcher has found that the partition is to go on in that lane."""
        self.unfollow(partition)
        self._follow_in(lane, partition)

    def moved(self, partition: Partition) -> None:
        """The partition's log is another one now."""
        self.unfollow(partition)
        self.role_changed(partition)

    async def stop(self) -> None:
        """End every fetcher, in the middle of whatever it does."""
        self._is_stopped = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._followed.clear()
        self._fetchers.clear()

    def lane_of(self, partition: Partition) -> Lane | None:
        """How the partition is fetched; None when it is not."""
        known = self._followed.get(partition.topic_partition)
        return None if known is None else known[0].lane

    def states(self) -> Iterator[tuple[Partition, State]]:
        """What is done about each partition."""
        for fetcher, partition, _ in self._followed.values():
            state = fetcher.state_of(partition)
            if state is not None:
                yield partition, state

    async def _run(self, fetcher: Fetcher) -> None:
        """Let it fetch for as long as it has something to; a bug of ours must not end replication in silence."""
        while len(fetcher) and not self._is_stopped:
            try:
                await fetcher.run()
            except Exception:
                logger.exception("fetching from broker %d went wrong; it is begun anew", fetcher.leader)
                fetcher.begin_anew()
                await asyncio.sleep(self._settings.backoff_ms_max / 1000)
        key = (fetcher.leader, fetcher.lane)
        if self._fetchers.get(key) is fetcher:
            del self._fetchers[key]
