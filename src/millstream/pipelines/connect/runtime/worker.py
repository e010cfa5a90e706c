"""The worker: every connector that is kept, each supervised on its own, and what may be asked of them."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.metrics.metric import Labels
from millstream.model.clock import Clock
from millstream.pipelines.connect import job
from millstream.pipelines.connect.job import Job, Place
from millstream.pipelines.connect.reports import Batch
from millstream.pipelines.connect.runtime import configs, metrics, statuses
from millstream.pipelines.connect.runtime.generations import Generations
from millstream.pipelines.connect.runtime.kinds import SINK, SOURCE, Kind, kind_of
from millstream.pipelines.connect.runtime.lifecycle import View
from millstream.pipelines.connect.runtime.metrics import WorkerMetrics
from millstream.pipelines.connect.runtime.refusals import bad_request, conflict, not_found
from millstream.pipelines.connect.runtime.showing import gone_entries, status_entries
from millstream.pipelines.connect.runtime.sink_offsets import SinkOffsets
from millstream.pipelines.connect.runtime.states import State, Target
from millstream.pipelines.connect.runtime.store import Store
from millstream.pipelines.connect.runtime.supervised import Supervised
from millstream.pipelines.connect.settings import OFFSETS_TOPIC
from millstream.pipelines.running.restarts import Restarts

logger = logging.getLogger(__name__)

Config = Mapping[str, str]


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker runs its connectors."""

    bootstrap: str
    #: A folder for the progress of all connectors.
    data: str
    #: ``HOST:PORT``, by which statuses say who speaks.
    worker_id: str
    #: What the topics of configs, offsets and statuses begin with.
    group: str = "connect"
    #: What a config says unless it says something else itself: converters, above all.
    defaults: Config = field(default_factory=dict)
    #: What Spark connectors run on, and settings of it.
    master: str = ""
    conf: Config = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = job.COMMAND


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
        self._clock = clock
        self._chance = chance
        self._say = say
        self._restarts = restarts
        self._generations = Generations(settings.data)
        self._sinks = SinkOffsets(Coordinators(cluster))
        self._connectors: dict[str, Supervised] = {}
        self._kinds: dict[str, Kind] = {}
        #: The topics that each connector uses, and since when.
        self._topics: dict[str, dict[str, int]] = {}
        #: Deleted connectors whose processes have not ended yet.
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._task_counts: dict[str, int] = {}
        #: Connectors that have become others, which make nothing of the progress so far.
        self._others: set[str] = set()
        self._is_closing = False
        self._beside: set[asyncio.Task[None]] = set()
        self.metrics = WorkerMetrics(
            {
                metrics.STARTS: lambda: self._read(lambda each: each.starts),
                metrics.FALLS: lambda: self._read(lambda each: each.falls),
                metrics.TASKS: lambda: self._read(lambda each: each.tasks if each.life.view.has_tasks else 0),
                metrics.STATE: self._read_states,
            }
        )

    async def open(self) -> None:
        """Read what is kept, and have every connector be as it was wanted."""
        await self.store.open()
        for name in self.store.configs.connectors:
            self._topics[name] = dict(self.store.statuses.topics.get(name, {}))
            await self._add(name)

    async def close(self) -> None:
        """End every connector behind its batch; what is wanted of them stays as it is."""
        self._is_closing = True
        await asyncio.gather(*(each.close() for each in self._connectors.values()), *self._leaving.values())
        for connector in self._connectors.values():
            self._note_status(connector)
        await self.store.close()

    def kill(self) -> None:
        """End every process at once."""
        for connector in self._connectors.values():
            connector.kill()

    # What is asked.

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
        return self._kinds.get(name, Kind())

    def tasks(self, name: str) -> Sequence[Config]:
        """The configs of a connector's tasks."""
        self.config(name)
        return self.store.configs.tasks.get(name, [])

    def view(self, name: str) -> tuple[View, int]:
        """How a connector stands, and how many tasks it has."""
        connector = self._connectors.get(name)
        if connector is None:
            raise not_found(f"No status found for connector {name}")
        view = connector.life.view
        return view, connector.tasks if view.has_tasks else 0

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has used since they were reset."""
        return list(self._topics.get(name, {}))

    # What is changed.

    async def put(self, name: str, config: Config, target: Target | None = None, *, may_replace: bool = True) -> bool:
        """Make a connector, or give it another config; whether it is new."""
        async with self._locks[name]:
            before = self.store.configs.connectors.get(name)
            if before is not None and not may_replace:
                raise conflict(f"Connector {name} already exists")
            await self.store.write_configs(configs.connector_entries(name, config, target))
            if before is None:
                await self._add(name)
                return True
            self._kinds[name] = await kind_of(config)
            if before.get("connector.class") != config.get("connector.class"):
                self._others.add(name)
            self._connectors[name].anew()
            return False

    async def delete(self, name: str) -> None:
        """Let a connector be no more; its offsets stay, as in Connect."""
        async with self._locks[name]:
            self.config(name)
            await self.store.write_configs(configs.removal_entries(name))
            connector = self._connectors.pop(name)
            self._task_counts.pop(name, None)
            self._forget_status(name, connector)
            self.metrics.forget(name)
            self._leaving[name] = asyncio.create_task(self._leave(connector))

    async def want(self, name: str, target: Target) -> None:
        """Have a connector be started, paused or stopped."""
        async with self._locks[name]:
            if name not in self.store.configs.connectors:
                raise not_found(f"Unknown connector {name}")
            if target is Target.STOPPED:
                await self.store.write_configs(configs.task_entries(name, []))
                self._task_counts[name] = 0
            await self.store.write_configs([configs.target_entry(name, target)])
            self._connectors[name].want(target)

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> View:
        """Start a connector's process again, where it is one of those meant; how it looks then."""
        async with self._locks[name]:
            if name not in self.store.configs.connectors:
                raise not_found(f"Unknown connector: {name}")
            connector = self._connectors[name]
            view = connector.life.view
            is_meant = not only_failed or view.connector is State.FAILED
            tasks_are_meant = include_tasks and (not only_failed or view.tasks is State.FAILED)
            if include_tasks or only_failed:
                await self.store.write_configs(
                    [configs.restart_entry(name, include_tasks=include_tasks, only_failed=only_failed)]
                )
            if is_meant or tasks_are_meant:
                connector.anew()
            return view._replace(
                connector=State.RESTARTING if is_meant else view.connector,
                tasks=State.RESTARTING if tasks_are_meant else view.tasks,
            )

    async def restart_task(self, name: str, number: int) -> None:
        """Start a task again: the process that it shares with the connector's others."""
        async with self._locks[name]:
            if name not in self.store.configs.connectors:
                raise not_found(f"Unknown connector: {name}")
            if number not in range(len(self.tasks(name))):
                raise not_found(f"Unknown task: {name}-{number}")
            self._connectors[name].anew()

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector used."""
        self.store.note([statuses.topic_entry(name, topic, None) for topic in self._topics.pop(name, {})])

    # Offsets.

    async def offsets(self, name: str) -> list[Place]:
        """How far a connector is."""
        config = self.config(name)
        if self.kind(name).type == SINK:
            return await self._sinks.of(name)
        return (await self.store.offsets(self._offsets_topic(config))).of(name)

    async def alter_offsets(self, name: str, places: Sequence[Place]) -> None:
        """Have a stopped connector go on from elsewhere."""
        async with self._locks[name]:
            config = await self._stopped(name)
            if self.kind(name).type == SINK:
                await self._sinks.alter(name, places, before=partial(self._begin, name))
                return
            topic = self._offsets_topic(config)
            entries = (await self.store.offsets(topic)).altered(name, places)
            self._begin(name)
            await self.store.write_offsets(topic, entries)

    async def reset_offsets(self, name: str) -> None:
        """Have a stopped connector begin from the beginning."""
        async with self._locks[name]:
            config = await self._stopped(name)
            self._begin(name)
            if self.kind(name).type == SINK:
                await self._sinks.reset(name)
                return
            topic = self._offsets_topic(config)
            await self.store.write_offsets(topic, (await self.store.offsets(topic)).reset(name))

    async def _stopped(self, name: str) -> Config:
        config = self.config(name)
        if self.store.configs.targets.get(name) is not Target.STOPPED:
            raise bad_request(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        await self._connectors[name].settled()
        return config

    def _begin(self, name: str) -> int:
        """A new generation: what its offsets say counts from now on, and no checkpoint."""
        return self._generations.begin(name, self._clock.now_ms())

    def _offsets_topic(self, config: Config) -> str:
        return config.get(OFFSETS_TOPIC.name) or self.store.offsets_topic

    # Carrying out.

    async def _add(self, name: str) -> None:
        self._kinds[name] = await kind_of(self.store.configs.connectors[name])
        connector = self._connectors[name] = Supervised(
            name,
            partial(self._job, name),
            self,
            command=self.settings.command,
            env=self.settings.env,
            restarts=self._restarts(),
            clock=self._clock,
            chance=self._chance,
        )
        self._task_counts[name] = len(self.store.configs.tasks.get(name, []))
        connector.tasks = self._task_counts[name]
        target = self.store.configs.targets.get(name, Target.STARTED)
        connector.want(target)
        self._note_status(connector)

    async def _job(self, name: str) -> Job:
        """What a connector's process is to run now."""
        if leaving := self._leaving.get(name):
            await leaving
        config = self.store.configs.connectors[name]
        generation = self._generations.current(name)
        if generation is None or name in self._others:
            generation = self._begin(name)
            self._others.discard(name)
        is_source = self.kind(name).type == SOURCE
        topic = self._offsets_topic(config)
        return Job(
            bootstrap=self.settings.bootstrap,
            config={**self.settings.defaults, **config},
            data=self.settings.data,
            generation=generation,
            offsets=(await self.store.offsets(topic)).of(name) if is_source else None,
            offsets_topic=topic if is_source else "",
            master=self.settings.master,
            conf=self.settings.conf,
        )

    async def _leave(self, connector: Supervised) -> None:
        await connector.close()
        await asyncio.to_thread(self._generations.forget, connector.name)
        del self._leaving[connector.name]

    # What connectors tell.

    def changed(self, connector: Supervised) -> None:
        """Its state, or the number of its tasks, may be another."""
        if self._connectors.get(connector.name) is not connector or self._is_closing:
            return
        self._note_status(connector)
        if connector.life.view.tasks is State.RUNNING and self._task_counts.get(connector.name) != connector.tasks:
            self._task_counts[connector.name] = connector.tasks
            task = asyncio.create_task(self._write_tasks(connector.name, connector.tasks))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)

    def worked(self, connector: Supervised, batch: Batch) -> None:
        """It has ended a batch."""
        if self._connectors.get(connector.name) is not connector:
            return
        self.metrics.add(connector.name, batch)
        known = self._topics.setdefault(connector.name, {})
        for topic in batch.topics:
            if topic not in known:
                known[topic] = self._clock.now_ms()
                self.store.note([statuses.topic_entry(connector.name, topic, known[topic])])

    def said(self, connector: Supervised, line: str) -> None:
        """Its process wrote a line to standard error."""
        self._say(f"{connector.name}: {line}")

    async def _write_tasks(self, name: str, count: int) -> None:
        """Have the topic of configs say how many tasks a connector has; each is given all of its config."""
        try:
            async with self._locks[name]:
                config = self.store.configs.connectors.get(name)
                if config is not None and self.store.configs.targets.get(name) is not Target.STOPPED:
                    task = {**config, "task.class": config.get("connector.class", "")}
                    await self.store.write_configs(configs.task_entries(name, [task] * count))
        except Exception as error:
            self._task_counts.pop(name, None)  # They are written with the next change.
            logger.warning("the tasks of connector %s are not written now: %s", name, error)

    def _note_status(self, connector: Supervised) -> None:
        name, view = connector.name, connector.life.view
        if self._is_closing and self.store.configs.targets.get(name, Target.STARTED) is Target.STARTED:
            view = view._replace(connector=State.UNASSIGNED, tasks=State.UNASSIGNED)
        count = connector.tasks if view.has_tasks else 0
        speaker = (self.settings.worker_id, connector.starts, self.kind(name).version)
        self.store.note(status_entries(name, view, count, *speaker, known=self.store.statuses.tasks.get(name, {})))

    def _forget_status(self, name: str, connector: Supervised) -> None:
        self.store.note(gone_entries(name, max(connector.tasks, *self.store.statuses.tasks.get(name, {}), 0) + 1))
        self.reset_topics(name)

    def _read(self, of: Callable[[Supervised], float]) -> Iterator[tuple[Labels, float]]:
        return (((name,), of(each)) for name, each in self._connectors.items())

    def _read_states(self) -> Iterator[tuple[Labels, float]]:
        return (((name, each.life.view.tasks.value), 1) for name, each in self._connectors.items())
