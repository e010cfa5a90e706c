"""A follower's end of a fetch session: what the leader has been told, and what is to be told next.

Pure.  The leader keeps each partition's place until another is named, and tells of a partition when it has news.  So
whatever an answer brought, the place is named again unless the answer left it as it was.
"""

from collections.abc import Iterable

from millstream.model.ids import Uuid
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from millstream.replication.fetch_sessions import EPOCH_MAX, FINAL_EPOCH, FULL_EPOCH, NO_SESSION
from millstream.replication.following.place import Position

#: A partition, by its topic's id and its index.
Id = tuple[Uuid, int]


class FollowingSession:
    """The places that the leader knows of."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self._epoch = FULL_EPOCH
        self._told: dict[Id, Position] = {}

    def told(self, id_: Id) -> Position | None:
        """Where the leader believes us to be."""
        return self._told.get(id_)

    def restart(self) -> None:
        """The leader knows nothing any more, or may not."""
        self.id = NO_SESSION
        self._epoch = FULL_EPOCH
        self._told.clear()

    def opened(self, session_id: int) -> None:
        """The leader has made the session."""
        if self.id == NO_SESSION:
            self.id = session_id

    def next_epoch(self) -> int:
        """The epoch of a fetch that leaves now."""
        epoch = self._epoch
        self._epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return epoch

    def changes(self, named: Iterable[tuple[Id, Position]], dropped: Iterable[Id]) -> tuple[list[Id], list[Id]]:
        """Take over what the next fetch tells; which ids it names, and which it has the leader forget."""
        names = []
        for id_, position in named:
            self._told[id_] = position
            names.append(id_)
        return names, [id_ for id_ in dropped if self._told.pop(id_, None) is not None]


def request(
    session: FollowingSession,
    named: list[tuple[Id, Position, int]],
    forgotten: list[Id],
    *,
    replica: ReplicaState,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> FetchRequest:
    """A fetch that names places (and the log's start there), and has others forgotten."""
    topics: dict[Uuid, FetchTopic] = {}
    for (topic_id, index), position, start_offset in named:
        row = FetchPartition(
            partition=index,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_epoch,
            log_start_offset=start_offset,
            partition_max_bytes=partition_max_bytes,
        )
        if topic_id not in topics:
            topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
        topics[topic_id].partitions.append(row)
    dropped: dict[Uuid, ForgottenTopic] = {}
    for topic_id, index in forgotten:
        if topic_id not in dropped:
            dropped[topic_id] = ForgottenTopic(topic_id=topic_id, partitions=[])
        dropped[topic_id].partitions.append(index)
    return FetchRequest(
        replica_state=replica,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session.id,
        session_epoch=session.next_epoch(),
        topics=list(topics.values()),
        forgotten_topics_data=list(dropped.values()),
    )


def farewell(session: FollowingSession, replica: ReplicaState) -> FetchRequest:
    """The fetch that ends the session."""
    return FetchRequest(replica_state=replica, session_id=session.id, session_epoch=FINAL_EPOCH)
