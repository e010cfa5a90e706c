"""Offsets as requests ask for them: OffsetCommit (8), OffsetFetch (9), TxnOffsetCommit (28), OffsetDelete (47)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from millstream.coordination.decision import Decision, Origin, Producer, Question, Timer, reply
from millstream.coordination.groups.group import ClusterTopics, Group, Groups, TopicsChanged, TopicView
from millstream.coordination.groups.offsets.expiry import ExpireOffsets, ForgetTopics, OffsetExpiry
from millstream.coordination.groups.offsets.store import Kept, OffsetStore
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, Uuid
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from millstream.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from millstream.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

#: OffsetCommit says that a group is unknown from here on; before, its generation was called illegal.
GROUP_NOT_FOUND_FROM = 9
#: OffsetFetch names several groups from here on.
GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
NO_OFFSET = -1
NO_EPOCH = -1
NO_RETENTION = -1

Timers = Sequence[Timer]


class OffsetsPart:
    """What groups have read, as far as they said so."""

    def __init__(
        self,
        groups: Groups,
        settings: Callable[[], GroupSettings],
        topics: ClusterTopics,
        simple_group: Callable[[str], Group],
    ) -> None:
        self.store = OffsetStore()
        self._groups = groups
        self._settings = settings
        self._topics = topics
        #: Makes a group that has nothing but offsets.
        self._simple_group = simple_group
        self._expiry = OffsetExpiry(self.store, groups, settings, topics)

    # Committing.

    def commit(self, question: Question, now_ms: int) -> Decision:
        """OffsetCommit: a refusal is told row by row, beside those of partitions that are not there."""
        request: OffsetCommitRequest = question.request
        epoch = request.generation_id_or_member_epoch
        has_ids = question.version >= TOPIC_IDS_FROM
        partitions = self._partitions(request.topics, has_ids)
        timers, refused = self._checked(
            request.group_id, request.member_id, request.group_instance_id, epoch, partitions, False, question.version
        )
        retention_ms = request.retention_time_ms
        expire_ms = NO_TIMESTAMP if retention_ms == NO_RETENTION else now_ms + retention_ms
        records: list[CoordinatorRecord] = []
        answered = []
        for topic in request.topics:
            if has_ids:
                topic_id, unknown = topic.topic_id, ErrorCode.UNKNOWN_TOPIC_ID
                view = self._topics.by_id(topic_id)
            else:
                topic_id, unknown = ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                view = self._topics.by_name(topic.name)
            codes = self._commit_topic(
                request.group_id, view, topic.partitions, refused, unknown, now_ms, expire_ms, topic_id, records
            )
            rows = [
                OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                for row, code in zip(topic.partitions, codes, strict=True)
            ]
            answered.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows))
        answer = OffsetCommitResponse(topics=answered)
        return Decision(records=records, timers=timers, answers=((question.ticket, answer),), is_pure=True)

    def commit_in_transaction(self, question: Question, now_ms: int) -> Decision:
        """TxnOffsetCommit: the same, to hold once the producer's transaction commits."""
        request: TxnOffsetCommitRequest = question.request
        if not request.group_id:
            raise ProtocolError(ErrorCode.INVALID_GROUP_ID, "the group has no name")
        _, refused = self._checked(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            self._partitions(request.topics, has_ids=False),
            True,
            question.version,
        )
        if refused is ErrorCode.STALE_MEMBER_EPOCH:
            refused = ErrorCode.ILLEGAL_GENERATION
        records: list[CoordinatorRecord] = []
        answered = []
        for topic in request.topics:
            codes = self._commit_topic(
                request.group_id,
                self._topics.by_name(topic.name),
                topic.partitions,
                refused,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                now_ms,
                NO_TIMESTAMP,
                ZERO_UUID,
                records,
            )
            rows = [
                TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                for row, code in zip(topic.partitions, codes, strict=True)
            ]
            answered.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
        return Decision(
            records=records,
            answers=((question.ticket, TxnOffsetCommitResponse(topics=answered)),),
            producer=Producer(request.producer_id, request.producer_epoch),
            is_pure=True,
        )

    def _checked(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[tuple[Uuid, int]],
        is_transactional: bool,
        version: int,
    ) -> tuple[Timers, ErrorCode]:
        """The timers that a member's commit moves, and why it may not commit (NONE: it may)."""
        group = self._groups.get(group_id)
        if group is None:
            if epoch < 0:  # An administrator, or a consumer that needs no group but for its offsets.
                return (), ErrorCode.NONE
            if version >= GROUP_NOT_FOUND_FROM and not is_transactional:
                return (), ErrorCode.GROUP_ID_NOT_FOUND
            return (), ErrorCode.ILLEGAL_GENERATION
        try:
            timers = group.check_commit(
                member_id, instance_id, epoch, partitions, is_transactional=is_transactional, version=version
            )
        except ProtocolError as refusal:
            return (), refusal.code
        return timers, ErrorCode.NONE

    def _partitions(self, topics: Iterable[Any], has_ids: bool) -> Iterator[tuple[Uuid, int]]:
        """What is asked to be committed, as far as it is there."""
        for topic in topics:
            view = self._topics.by_id(topic.topic_id) if has_ids else self._topics.by_name(topic.name)
            if view is None:
                continue
            for row in topic.partitions:
                if 0 <= row.partition_index < view.partition_count:
                    yield view.topic_id, row.partition_index

    def _commit_topic(
        self,
        group_id: str,
        view: TopicView | None,
        rows: Iterable[Any],
        refused: ErrorCode,
        unknown: ErrorCode,
        now_ms: int,
        expire_ms: int,
        topic_id: Uuid,
        records: list[CoordinatorRecord],
    ) -> list[ErrorCode]:
        """Add a record for each row that is taken; each row's code."""
        if view is None:
            return [unknown for _ in rows]
        codes = []
        metadata_max = self._settings().offset_metadata_max_bytes
        for row in rows:
            partition, metadata = row.partition_index, row.committed_metadata or ""
            if not 0 <= partition < view.partition_count:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif refused:
                code = refused
            elif len(metadata) > metadata_max:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                code = ErrorCode.NONE
                value = OffsetCommitValue(
                    offset=row.committed_offset,
                    leader_epoch=row.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expire_ms,
                    topic_id=topic_id,
                )
                records.append(CoordinatorRecord(OffsetCommitKey(group_id, view.name, partition), value))
            codes.append(code)
        return codes

    # Reading.

    def fetch(self, question: Question, now_ms: int) -> Decision:
        """OffsetFetch, in the shape that its version has; a member that may not read is refused as a whole."""
        request: OffsetFetchRequest = question.request
        answer = OffsetFetchResponse()
        if question.version < GROUPS_FROM:
            self._check_fetch(request.group_id, None, NO_EPOCH)
            asked = request.topics
            if asked is None:
                wanted = [(topic, list(rows)) for topic, rows in self.store.of_group(request.group_id).items()]
            else:
                wanted = [(topic.name, topic.partition_indexes) for topic in asked]
            answer.topics = [
                OffsetFetchResponseTopic(
                    name=name,
                    partitions=self._rows(
                        OffsetFetchResponsePartition, request.group_id, name, indexes, request.require_stable
                    ),
                )
                for name, indexes in wanted
            ]
        else:
            has_ids = question.version >= TOPIC_IDS_FROM
            answer.groups = [self._fetch_group(group, request.require_stable, has_ids) for group in request.groups]
        return reply(question, answer)

    def _fetch_group(self, asked: OffsetFetchRequestGroup, is_stable: bool, has_ids: bool) -> OffsetFetchResponseGroup:
        self._check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
        answer = OffsetFetchResponseGroup(group_id=asked.group_id)
        if asked.topics is None:
            wanted = [(name, ZERO_UUID, list(rows)) for name, rows in self.store.of_group(asked.group_id).items()]
        else:
            wanted = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in asked.topics]
        for name, topic_id, indexes in wanted:
            if has_ids:
                view = self._topics.by_name(name) if asked.topics is None else self._topics.by_id(topic_id)
                if view is None:
                    if asked.topics is not None:
                        rows = [_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
                        answer.topics.append(OffsetFetchResponseTopics(topic_id=topic_id, partitions=rows))
                    continue
                name, topic_id = view.name, view.topic_id
            rows = self._rows(OffsetFetchResponsePartitions, asked.group_id, name, indexes, is_stable, topic_id)
            answer.topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=rows))
        return answer

    def _check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Refuse a member that is not one; of a group that is not there, nothing was committed."""
        group = self._groups.get(group_id)
        if group is None:
            return
        try:
            group.check_fetch(member_id, member_epoch)
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise

    def _rows(
        self,
        make_row: Callable[..., Any],
        group_id: str,
        topic: str,
        indexes: Iterable[int],
        is_stable: bool,
        topic_id: Uuid = ZERO_UUID,
    ) -> list[Any]:
        held = self.store.of_group(group_id).get(topic, {})
        rows = []
        for index in indexes:
            code, kept = ErrorCode.NONE, held.get(index)
            if is_stable and self.store.is_pending(group_id, topic, index):
                code, kept = ErrorCode.UNSTABLE_OFFSET_COMMIT, None
            if kept is None or _is_of_another(kept, topic_id):
                offset, leader_epoch, metadata = NO_OFFSET, NO_EPOCH, ""
            else:
                offset, leader_epoch, metadata, _, _, _ = kept
            rows.append(
                make_row(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    metadata=metadata,
                    error_code=code,
                )
            )
        return rows

    # Deleting.

    def delete(self, question: Question, now_ms: int) -> Decision:
        """OffsetDelete: of topics that nobody in the group reads; the group must have no members but consumers."""
        request: OffsetDeleteRequest = question.request
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is None:
            raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
        if group.protocol_type != "consumer":
            group.check_delete()
        records = []
        answer = OffsetDeleteResponse()
        for topic in request.topics:
            code = ErrorCode.NONE
            if self._topics.by_name(topic.name) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif group.is_subscribed(topic.name):
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            indexes = [row.partition_index for row in topic.partitions]
            rows = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
            answer.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
            if code is ErrorCode.NONE:
                records += [
                    CoordinatorRecord(OffsetCommitKey(group_id, topic.name, index), None)
                    for index in indexes
                    if self.store.get(group_id, topic.name, index) is not None
                    or self.store.is_pending(group_id, topic.name, index)
                ]
        return reply(question, answer, records)

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that delete every offset of a group, pending ones included."""
        return [
            CoordinatorRecord(OffsetCommitKey(group_id, topic, partition), None)
            for topic, partition in self.store.places(group_id)
        ]

    # Events.

    def loaded(self, now_ms: int) -> Decision:
        """Look for offsets that have expired, from now on."""
        return Decision(timers=(self._expiry.next_round(),))

    def expire(self, event: ExpireOffsets, now_ms: int) -> Decision:
        return self._expiry.expire(now_ms)

    def topics_changed(self, event: TopicsChanged | ForgetTopics, now_ms: int) -> Decision:
        return self._expiry.forget(event.topics)

    # Replay.

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, origin: Origin) -> None:
        """An offset, or the end of one; the first of an unknown group makes it."""
        group_id, topic, partition = key
        if value is None:
            self.store.remove(group_id, topic, partition)
            return
        if group_id not in self._groups:
            self._groups[group_id] = self._simple_group(group_id)
        kept = (
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        if origin.producer_id < 0:
            self.store.put(group_id, topic, partition, kept)
        else:
            self.store.put_pending(group_id, topic, partition, kept, origin.producer_id)

    def take_over(self, group_id: str) -> None:
        """A group is gone: offsets that it leaves are those of one that has nothing else, and expire as such."""
        if group_id not in self._groups and self.store.has_any(group_id):
            self._groups[group_id] = self._simple_group(group_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """What a transaction left pending holds now, or is gone."""
        self.store.end(producer_id, is_commit=is_commit)

    EVENTS: ClassVar[dict[type, Callable[["OffsetsPart", Any, int], Decision]]] = {
        OffsetCommitRequest: commit,
        TxnOffsetCommitRequest: commit_in_transaction,
        OffsetFetchRequest: fetch,
        OffsetDeleteRequest: delete,
        ExpireOffsets: expire,
        TopicsChanged: topics_changed,
        ForgetTopics: topics_changed,
    }
    REPLAYS: ClassVar[dict[type, Callable[["OffsetsPart", Any, Any, Origin], None]]] = {OffsetCommitKey: replay}


def _is_of_another(kept: Kept, topic_id: Uuid) -> bool:
    """Whether an offset is of a topic that had the same name; told only where both ids are known."""
    kept_id = kept[5]
    return topic_id != kept_id and ZERO_UUID not in (topic_id, kept_id)


def _no_offset(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )
