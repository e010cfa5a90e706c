"""The worker: what may be asked of the connectors that are kept."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.model.clock import Clock
from millstream.model.errors import ProtocolError
from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Source
from millstream.pipelines.connect.errors import ConnectError
from millstream.pipelines.connect.job import Place
from millstream.pipelines.connect.places import text_of
from millstream.pipelines.connect.runtime import configs
from millstream.pipelines.connect.runtime.entries import Entry
from millstream.pipelines.connect.runtime.fleet import Fleet, WorkerSettings
from millstream.pipelines.connect.runtime.kinds import SINK, SOURCE, Kind, class_of
from millstream.pipelines.connect.runtime.leftovers import Leftovers
from millstream.pipelines.connect.runtime.lifecycle import View
from millstream.pipelines.connect.runtime.membership import Membership, instance_of
from millstream.pipelines.connect.runtime.metrics import WorkerMetrics
from millstream.pipelines.connect.runtime.refusals import bad_request, conflict, not_found
from millstream.pipelines.connect.runtime.sink_offsets import SinkOffsets
from millstream.pipelines.connect.runtime.states import State, Target
from millstream.pipelines.connect.runtime.store import RETRY_S, Store
from millstream.pipelines.connect.runtime.supervised import Supervised
from millstream.pipelines.connect.settings import sink_group
from millstream.pipelines.running.restarts import Restarts

Config = Mapping[str, str]


class Worker:
    """Keeps every connector as it is wanted.

    What is asked of one that is not there, or cannot be, is Refused.  No call waits for a process, but those that
    alter offsets.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        cluster: Cluster,
        clock: Clock,
        chance: Callable[[], float],
        say: Callable[[str], None],
        restarts: Callable[[], Restarts] = Restarts,
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.store = Store(cluster, settings.group, clock)
        coordinators = Coordinators(cluster)
        self._membership = Membership(coordinators, settings.group, instance_of(settings.data), settings.worker_id)
        self._leftovers = Leftovers(coordinators, settings.group, clock)
        self._fleet = Fleet(settings, self.store, self._leftovers, clock, chance, say, restarts)
        self._sinks = SinkOffsets(coordinators)
        self._say = say
        self._catching_up: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read what is kept, and have every connector be as it was wanted; PipelineError where another worker does."""
        await self._membership.join()
        self._keeping = asyncio.create_task(self._membership.keep(self._fleet.pulse))
        await self.store.open()
        await self._leftovers.open()
        await self._fleet.follow()

    async def close(self) -> None:
        """End every connector behind its batch; what is wanted of them stays as it is."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        await self._fleet.close()
        await self._leftovers.close()
        await self.store.close()
        if self._keeping is not None:
            self._keeping.cancel()
        await self._membership.leave()

    async def replaced(self) -> None:
        """Wait until another worker has the group, and raise a PipelineError that says so."""
        assert self._keeping is not None
        await asyncio.shield(self._keeping)

    def kill(self) -> None:
        """End every process at once."""
        self._fleet.kill()

    # What is asked.

    @property
    def metrics(self) -> WorkerMetrics:
        return self._fleet.metrics

    @property
    def names(self) -> list[str]:
        return list(self.store.configs.connectors)

    def config(self, name: str) -> Config:
        """A connector's config."""
        found = self.store.configs.connectors.get(name)
        if found is None:
            raise not_found(f"Connector {name} not found")
        return found

    def kind(self, name: str) -> Kind:
        """Whether it is a source or a sink."""
        return self._fleet.kinds.get(name, Kind())

    def tasks(self, name: str) -> Sequence[Config]:
        """The configs of a connector's tasks."""
        self.config(name)
        return self.store.configs.tasks.get(name, [])

    def view(self, name: str) -> tuple[View, int]:
        """How a connector stands, and how many tasks it has."""
        connector = self._supervised(name, f"No status found for connector {name}")
        view = connector.life.view
        return view, connector.tasks if view.has_tasks else 0

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has used since they were reset."""
        return list(self._fleet.topics.get(name, {}))

    # What is changed.

    async def put(self, name: str, config: Config, target: Target | None = None, *, may_replace: bool = True) -> bool:
        """Make a connector, or give it another config; whether it is new."""
        async with self._fleet.locks[name]:
            is_new = name not in self.store.configs.connectors
            if not is_new and not may_replace:
                raise conflict(f"Connector {name} already exists")
            words = "created" if is_new else "given a config"
            await self._write(configs.connector_entries(name, config, target), f"{name}: {words}")
            return is_new

    async def replace(self, name: str, before: Config, config: Config) -> bool:
        """Give a connector another config; False, and nothing done, when the one it has is not the one it had."""
        async with self._fleet.locks[name]:
            if self.config(name) != before:
                return False
            await self._write(configs.connector_entries(name, config), f"{name}: given a config")
            return True

    async def delete(self, name: str) -> None:
        """Let a connector be no more; its offsets stay, as in Connect."""
        async with self._fleet.locks[name]:
            self.config(name)
            await self._write(configs.removal_entries(name), f"{name}: deleted")

    async def want(self, name: str, target: Target) -> None:
        """Have a connector be started, paused or stopped."""
        async with self._fleet.locks[name]:
            connector = self._supervised(name, f"Unknown connector {name}")
            no_tasks = configs.task_entries(name, []) if target is Target.STOPPED else []
            is_resumed = target is Target.STARTED and connector.life.target is not target
            await self._write([*no_tasks, configs.target_entry(name, target)], f"{name}: resumed" if is_resumed else "")

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> View:
        """Start a connector's process again, where it is one of those meant; how it looks then."""
        async with self._fleet.locks[name]:
            connector = self._supervised(name, f"Unknown connector: {name}")
            view = connector.life.view
            is_meant = not only_failed or view.connector is State.FAILED
            tasks_are_meant = include_tasks and (not only_failed or view.tasks is State.FAILED)
            if include_tasks or only_failed:
                await self._write([configs.restart_entry(name, include_tasks=include_tasks, only_failed=only_failed)])
            if is_meant or tasks_are_meant:
                connector.anew()
            return view._replace(
                connector=State.RESTARTING if is_meant else view.connector,
                tasks=State.RESTARTING if tasks_are_meant else view.tasks,
            )

    async def restart_task(self, name: str, number: int) -> None:
        """Start a task again: the process that it shares with the connector's others."""
        async with self._fleet.locks[name]:
            connector = self._supervised(name, f"Unknown connector: {name}")
            if number not in range(len(self.tasks(name))):
                raise not_found(f"Unknown task: {name}-{number}")
            connector.anew()

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector used."""
        self._fleet.reset_topics(name)

    async def set_logger(self, name: str, level: str) -> None:
        """Have workers to come log so much as well."""
        await self._write([configs.logger_entry(name, level)])

    def _supervised(self, name: str, otherwise: str) -> Supervised:
        connector = self._fleet.connectors.get(name)
        if connector is None:
            raise not_found(otherwise)
        return connector

    async def _write(self, entries: Sequence[Entry], words: str = "") -> None:
        """Have configs say this, and connectors be so.  What was not acknowledged may be there all the same.

        The words are said once it is written.
        """
        await self._membership.check()
        try:
            await self.store.write_configs(entries)
        except BaseException:
            if self._catching_up is None or self._catching_up.done():
                self._catching_up = asyncio.create_task(self._catch_up())
            raise
        if words:
            self._say(words)
        await self._fleet.follow()

    async def _catch_up(self) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            try:
                await self.store.refresh_configs()
            except (OSError, ProtocolError):
                continue
            await self._fleet.follow()
            return

    # Offsets.

    async def offsets(self, name: str) -> list[Place]:
        """How far a connector is."""
        config = self.config(name)
        if self.kind(name).type == SINK:
            return await self._sinks.of(sink_group(config))
        return (await self.store.offsets(self._fleet.offsets_topic(config))).of(name)

    async def alter_offsets(self, name: str, places: Sequence[Place]) -> None:
        """Have a stopped connector go on from elsewhere."""
        async with self._fleet.locks[name]:
            config = await self._stopped(name)
            if self.kind(name).type == SINK:
                group, taken = sink_group(config), self._fleet.taken(name)
                await self._sinks.alter(group, taken, places, before=partial(self._fleet.begin, name))
                return
            if self.kind(name).type == SOURCE:
                await asyncio.to_thread(_check_places, class_of(config), places)
            topic = self._fleet.offsets_topic(config)
            entries = (await self.store.offsets(topic, to_end=True)).altered(name, places)
            self._fleet.begin(name)
            await self.store.write_offsets(topic, entries)

    async def reset_offsets(self, name: str) -> None:
        """Have a stopped connector begin from the beginning."""
        async with self._fleet.locks[name]:
            config = await self._stopped(name)
            if self.kind(name).type == SINK:
                self._fleet.begin(name)
                await self._sinks.reset(sink_group(config))
                return
            topic = self._fleet.offsets_topic(config)
            entries = (await self.store.offsets(topic, to_end=True)).reset(name)
            self._fleet.begin(name)
            await self.store.write_offsets(topic, entries)

    async def _stopped(self, name: str) -> Config:
        config = self.config(name)
        if self.store.configs.targets.get(name) is not Target.STOPPED:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        await self._fleet.settled(name)
        return config


def _check_places(class_name: str, places: Sequence[Place]) -> None:
    """Refused where a source could not go on from one of them; any may be forgotten."""
    try:
        source = plugins.connector(class_name)
    except ConnectError as error:
        raise bad_request(str(error)) from None
    assert issubclass(source, Source)
    for partition, offset in ((place["partition"], place["offset"]) for place in places):
        if offset is not None and (wrong := source.check_place(partition, offset)):
            raise bad_request(f"The offset for the partition {text_of(partition)} cannot be set: {wrong}")
