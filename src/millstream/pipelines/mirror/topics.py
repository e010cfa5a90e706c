"""Topics of the target kept in step with the source's: made, widened, and set as they are there."""

from collections.abc import Mapping, Sequence

from millstream.client.admin import (
    Change,
    NewTopic,
    Operation,
    Resource,
    SettingValue,
    alter_configs,
    create_partitions,
    create_topics,
    describe_configs,
)
from millstream.client.cluster import Cluster
from millstream.config.setting import Setting
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.policy import Patterns

COMPACTED = {"cleanup.policy": "compact"}
_OF_TOPIC = "topic"


def own_settings(found: Sequence[SettingValue], excluded: Patterns) -> dict[str, str]:
    """What was set for the topic itself and is worth mirroring."""
    return {
        each.name: each.value
        for each in found
        if each.source == _OF_TOPIC and each.value is not None and not each.is_sensitive and each.name not in excluded
    }


def changes(source: Mapping[str, str], target: Mapping[str, str]) -> list[Change]:
    """What makes the target's settings the source's."""
    changed = [Change(name, Operation.SET, value) for name, value in source.items() if target.get(name) != value]
    return [*changed, *(Change(name, Operation.DELETE) for name in target if name not in source)]


async def replicas(flow: Flow, cluster: Cluster, setting: Setting[int]) -> int:
    """How many replicas a topic gets: as the file says, else MirrorMaker's number or as many as there are brokers."""
    told: int = flow[setting]
    if told:
        return told
    if not cluster.brokers:
        await cluster.refresh([])
    return min(s.FACTORS[setting], len(cluster.brokers))


async def ensure_compacted(flow: Flow, cluster: Cluster, name: str, setting: Setting[int]) -> None:
    """Let a topic of our own be there, with its one partition."""
    if name in cluster.topics:
        return
    new = NewTopic(name, 1, await replicas(flow, cluster, setting), COMPACTED)
    [outcome] = await create_topics(cluster, [new])
    if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        outcome.raise_if_refused()
    await cluster.topic(name, is_new=True)


class TopicsInStep:
    """What the target's topics are to be."""

    def __init__(self, flow: Flow, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._choice = flow.topics()
        self._excluded = Patterns(flow[s.CONFIG_EXCLUDE])

    async def mirrored(self) -> dict[str, str]:
        """The source's topics that are mirrored, and what they are called at the target."""
        await self._source.refresh(None)
        policy, alias = self._flow.policy, self._flow.source
        return {
            name: policy.remote_topic(alias, name)
            for name, topic in sorted(self._source.topics.items())
            if not topic.is_internal and name in self._choice
        }

    async def refresh(self) -> list[str]:
        """Make what is missing and widen what is too narrow; a line for each refusal."""
        wanted = await self.mirrored()
        await self._target.refresh(None)
        there = self._target.topics
        new, wider, refused = [], {}, []
        factor = await replicas(self._flow, self._target, s.REPLICATION_FACTOR)
        for name, remote in wanted.items():
            count = len(self._source.topics[name].partitions)
            if remote not in there:
                try:
                    new.append(NewTopic(remote, count, factor, await self._settings(self._source, name)))
                except ProtocolError as refusal:  # It may be deleted just now; others are made all the same.
                    refused.append(f"topic {remote}: {refusal}")
            elif len(there[remote].partitions) < count:
                wider[remote] = count
        outcomes = [*(await create_topics(self._target, new) if new else ())]
        outcomes += [*(await create_partitions(self._target, wider) if wider else ())]
        fine = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        refused += [f"topic {each.name}: {each.code.name} {each.detail}" for each in outcomes if each.code not in fine]
        return refused

    async def sync_configs(self) -> None:
        """Set what is set at the source, and take back what is not; the first refusal is raised behind all others."""
        wanted = await self.mirrored()
        await self._target.refresh(None)
        refused: ProtocolError | None = None
        for name, remote in wanted.items():
            if remote in self._target.topics:
                try:
                    await self._sync(name, remote)
                except ProtocolError as refusal:
                    refused = refused or ProtocolError(refusal.code, f"topic {remote}: {refusal}")
        if refused is not None:
            raise refused

    async def _sync(self, name: str, remote: str) -> None:
        source, target = await self._settings(self._source, name), await self._settings(self._target, remote)
        if changed := changes(source, target):
            await alter_configs(self._target, Resource.TOPIC, remote, changed)

    async def _settings(self, cluster: Cluster, name: str) -> dict[str, str]:
        return own_settings(await describe_configs(cluster, Resource.TOPIC, name), self._excluded)
