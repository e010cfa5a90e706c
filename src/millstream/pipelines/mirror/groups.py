"""Groups of the source followed to the target: their offsets translated, told in checkpoints, and committed there."""

from collections.abc import Iterable, Mapping

from millstream.client.coordinators import Coordinators
from millstream.client.groups import Committed, commit_offsets, committed_offsets, list_groups
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.formats import Checkpoint
from millstream.pipelines.mirror.translation import Translations

#: States of a group that nobody reads in.
IDLE = frozenset({"Empty", "Dead"})
#: A group came to life while we looked; its offsets are its own.
_ALIVE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS})


def checkpoints_of(
    flow: Flow, group: str, committed: Mapping[TopicPartition, Committed], translations: Translations
) -> list[Checkpoint]:
    """Where a group goes on in the mirrored topics, as far as that can be told."""
    choice, policy = flow.topics(), flow.policy
    found = []
    for tp, at in committed.items():
        offset = translations.downstream(tp, at.offset) if tp.topic in choice else None
        if offset is not None:
            remote = TopicPartition(policy.remote_topic(flow.source, tp.topic), tp.partition)
            found.append(Checkpoint(group, remote, at.offset, offset, at.metadata))
    return found


def ahead(
    checkpoints: Iterable[Checkpoint], committed: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, int]:
    """The offsets to commit: a group is never put back behind where it is at the target."""
    return {
        each.partition: each.offset
        for each in checkpoints
        if each.partition not in committed or committed[each.partition].offset < each.offset
    }


class Groups:
    """The groups of one flow."""

    def __init__(self, flow: Flow, source: Coordinators, target: Coordinators, translations: Translations) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._translations = translations
        self._choice = flow.groups()
        self.names: list[str] = []
        self._told: dict[tuple[str, TopicPartition], Checkpoint] = {}
        self._last: dict[str, list[Checkpoint]] = {}
        self._refusal: ProtocolError | None = None

    async def refresh(self) -> None:
        """Look for the groups that are followed."""
        self.names = [group.name for group in await list_groups(self._source) if group.name in self._choice]

    async def checkpoints(self) -> list[Checkpoint]:
        """What has moved on since it was last told (``told``); a group that is refused holds up no other."""
        self._last, self._refusal = {}, None
        for name in self.names:
            try:
                committed = await committed_offsets(self._source, name)
            except ProtocolError as refusal:
                self._refusal = self._refusal or refusal
            else:
                self._last[name] = checkpoints_of(self._flow, name, committed, self._translations)
        return [each for group in self._last.values() for each in group if self._has_moved(each)]

    def told(self, checkpoints: Iterable[Checkpoint]) -> None:
        """These were written."""
        for each in checkpoints:
            self._told[each.group, each.partition] = each

    async def sync(self) -> int:
        """Commit what was translated for groups that are idle at the target; for how many groups that was."""
        await self.checkpoints()
        states = {group.name: group.state for group in await list_groups(self._target)}
        count = 0
        for name, checkpoints in self._last.items():
            if not checkpoints or states.get(name, "Empty") not in IDLE:
                continue
            try:
                offsets = ahead(checkpoints, await committed_offsets(self._target, name))
                if offsets:
                    await commit_offsets(self._target, name, offsets)
                    count += 1
            except ProtocolError as refusal:
                if refusal.code not in _ALIVE:
                    self._refusal = self._refusal or refusal
        self.raise_refusal()
        return count

    def raise_refusal(self) -> None:
        """What the first of the groups that were refused met with, now that all others are done."""
        if self._refusal is not None:
            raise self._refusal

    def _has_moved(self, checkpoint: Checkpoint) -> bool:
        told = self._told.get((checkpoint.group, checkpoint.partition))
        if told is None or told.upstream_offset > checkpoint.upstream_offset:
            return told != checkpoint  # The group was put back by its owner.
        return told.offset < checkpoint.offset or told.upstream_offset < checkpoint.upstream_offset
