"""Every connector that is kept, supervised: brought to what its config's topic says, and told of in its status's."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakValueDictionary

from millstream.metrics.metric import Labels
from millstream.model.clock import Clock
from millstream.pipelines.connect import job
from millstream.pipelines.connect.errors import ConnectError
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.reports import Batch
from millstream.pipelines.connect.runtime import metrics, statuses
from millstream.pipelines.connect.runtime.configs import task_entries
from millstream.pipelines.connect.runtime.generations import Generations
from millstream.pipelines.connect.runtime.kinds import CLASS, SOURCE, Kind, class_of, kind_of
from millstream.pipelines.connect.runtime.leftovers import Leftovers
from millstream.pipelines.connect.runtime.lifecycle import Phase
from millstream.pipelines.connect.runtime.membership import LEASE_S
from millstream.pipelines.connect.runtime.metrics import WorkerMetrics
from millstream.pipelines.connect.runtime.showing import gone_entries, status_entries
from millstream.pipelines.connect.runtime.states import State, Target
from millstream.pipelines.connect.runtime.store import Store
from millstream.pipelines.connect.runtime.supervised import STOP_TIMEOUT_S, Supervised
from millstream.pipelines.connect.settings import NAME, OFFSETS_TOPIC, layered
from millstream.pipelines.connect.spark import checkpoint
from millstream.pipelines.running.restarts import Restarts
from millstream.pipelines.spark.planning import Offsets, from_document

logger = logging.getLogger(__name__)

Config = Mapping[str, str]
#: How often one looks whether a process that outlived its worker has ended.
LOOK_S = 0.1


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
    #: What is said of config providers (``providers``), for checks and for processes.
    providers: Config = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = job.COMMAND


class Locks:
    """A lock for each name, for as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __getitem__(self, name: str) -> asyncio.Lock:
        return self._held.setdefault(name, asyncio.Lock())


class Fleet:
    """The connectors of a worker.

    What is kept in the topic of configs is what is wanted; ``follow`` has it so, whoever wrote it and whatever was
    done of it before.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        store: Store,
        leftovers: Leftovers,
        clock: Clock,
        chance: Callable[[], float],
        say: Callable[[str], None],
        restarts: Callable[[], Restarts],
    ) -> None:
        self.connectors: dict[str, Supervised] = {}
        self.kinds: dict[str, Kind] = {}
        #: The topics that each connector uses, and since when.
        self.topics: dict[str, dict[str, int]] = {}
        #: One change of a connector at a time.
        self.locks = Locks()
        self._settings = settings
        self._store = store
        self._leftovers = leftovers
        self._clock = clock
        self._chance = chance
        self._say = say
        self._restarts = restarts
        self._generations = Generations(settings.data)
        self._following = asyncio.Lock()
        #: The configs that processes run with, or will.
        self._applied: dict[str, Config] = {}
        #: Deleted connectors whose processes have not ended yet.
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        #: What was last said of each connector.
        self._words: dict[str, str] = {}
        self._is_closing = False
        self.metrics = WorkerMetrics(
            {
                metrics.STARTS: lambda: self._read(lambda each: each.starts),
                metrics.FALLS: lambda: self._read(lambda each: each.falls),
                metrics.TASKS: lambda: self._read(lambda each: each.tasks if each.life.view.has_tasks else 0),
                metrics.STATE: self._read_states,
            }
        )

    async def follow(self) -> None:
        """Have every connector be as it is wanted now; what that takes is done in time."""
        async with self._following:
            for name, config in list(self._store.configs.connectors.items()):
                await self._bring(name, config)
            for name in self.connectors.keys() - self._store.configs.connectors.keys():
                self._remove(name)

    async def close(self) -> None:
        """End every connector behind its batch; what is wanted of them stays as it is."""
        self._is_closing = True
        await asyncio.gather(*(each.close() for each in self.connectors.values()), *self._leaving.values())
        for connector in self.connectors.values():
            self._note_status(connector)

    def pulse(self) -> None:
        """Let every process work on: this worker has its place in the group."""
        for connector in self.connectors.values():
            connector.pulse()

    def kill(self) -> None:
        """End every process at once."""
        for connector in self.connectors.values():
            connector.kill()

    async def settled(self, name: str) -> None:
        """Return once no process works on a connector, whoever started it, and nothing that one wrote is undecided."""
        if connector := self.connectors.get(name):
            await connector.settled()
        if not await self._is_free(name):
            raise TimeoutError(f"a process of connector {name} has outlived its worker and not ended yet")
        await self._leftovers.ended(name)

    def begin(self, name: str) -> int:
        """A new generation: what its offsets say counts from now on, and no checkpoint."""
        return self._generations.begin(name, class_of(self._applied[name]), self._clock.now_ms())

    def taken(self, name: str) -> Offsets:
        """How far a sink's own progress is, which its group only shows, and shows late when a process is killed."""
        generation = self._generations.current(name, class_of(self._applied[name]))
        if generation is None:
            return {}
        place = Job(bootstrap="", config={NAME.name: name}, data=self._settings.data, generation=generation)
        return from_document(checkpoint.committed(place.folder) or {})

    def offsets_topic(self, config: Config) -> str:
        """Where the offsets of such a source are."""
        return config.get(OFFSETS_TOPIC.name) or self._store.offsets_topic

    def reset_topics(self, name: str) -> None:
        """Forget which topics a connector used."""
        self._store.note([statuses.topic_entry(name, topic, None) for topic in self.topics.pop(name, {})])

    # Carrying out.

    async def _bring(self, name: str, config: Config) -> None:
        target = self._store.configs.targets.get(name, Target.STARTED)
        connector, before = self.connectors.get(name), self._applied.get(name)
        if connector is None or before != config:
            self.kinds[name] = await kind_of(config)
            self._applied[name] = config
        if connector is None:
            connector = self.connectors[name] = self._supervised(name)
            self.topics[name] = dict(self._store.statuses.topics.get(name, {}))
            connector.want(target)
            self._note_status(connector)
            return
        if before is not None and before != config:
            connector.anew()
        if connector.life.target is not target:
            connector.want(target)

    def _supervised(self, name: str) -> Supervised:
        connector = Supervised(
            name,
            partial(self._job, name),
            self,
            command=self._settings.command,
            env=self._settings.env,
            restarts=self._restarts(),
            clock=self._clock,
            chance=self._chance,
        )
        connector.tasks = len(self._store.configs.tasks.get(name, []))
        return connector

    def _remove(self, name: str) -> None:
        connector = self.connectors.pop(name)
        self._applied.pop(name, None)
        self._words.pop(name, None)
        known = self._store.statuses.tasks.get(name, {})
        self._store.note(gone_entries(name, max(connector.tasks, *known, 0) + 1))
        self.reset_topics(name)
        self.metrics.forget(name)
        self._leaving[name] = asyncio.create_task(self._leave(connector, self._leaving.get(name)))

    async def _leave(self, connector: Supervised, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        await connector.close()
        if await self._is_free(connector.name):
            await asyncio.to_thread(self._generations.forget, connector.name)
        if self._leaving.get(connector.name) is asyncio.current_task():
            del self._leaving[connector.name]

    async def _is_free(self, name: str) -> bool:
        """Whether no process works on its progress; one that outlived its worker is given the time to end."""
        deadline_s = self._clock.monotonic_s() + STOP_TIMEOUT_S
        while not self._generations.is_free(name):
            if self._clock.monotonic_s() >= deadline_s:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def _job(self, name: str) -> Job:
        """What a connector's process is to run now."""
        if leaving := self._leaving.get(name):
            await leaving
        await self._leftovers.ended(name)
        config = self._applied[name]
        generation = self._generations.current(name, class_of(config))
        if generation is None:
            if not self._generations.is_free(name):
                raise ConnectError("a process of an earlier worker has not ended yet")
            generation = self.begin(name)
        is_source = self.kinds[name].type == SOURCE
        topic = self.offsets_topic(config)
        found = Job(
            bootstrap=self._settings.bootstrap,
            # Whoever wrote it: a process that goes by another's name would work on its progress.
            config={**layered(self._settings.defaults, config), NAME.name: name},
            data=self._settings.data,
            generation=generation,
            offsets_topic=topic if is_source else "",
            master=self._settings.master,
            conf=self._settings.conf,
            providers=self._settings.providers,
            lease_s=LEASE_S,
            group=self._settings.group,
        )
        if not is_source:
            return found
        # Only who begins needs them, and needs the last: its checkpoint says where any other goes on.
        offsets = await self._store.offsets(topic, to_end=checkpoint.query_id(found.folder) is None)
        return replace(found, offsets=offsets.of(name))

    # What connectors tell.

    def changed(self, connector: Supervised) -> None:
        """Its state, or the number of its tasks, may be another."""
        name = connector.name
        if self.connectors.get(name) is not connector or self._is_closing:
            return
        self._note_status(connector)
        words = _words(connector)
        if words and words != self._words.get(name):
            self._say(f"{name}: {words}")
        self._words[name] = words
        is_running = connector.life.view.tasks is State.RUNNING
        if is_running and self._tasks_of(connector) != self._store.configs.tasks.get(name):
            self._writing[name] = asyncio.create_task(self._write_tasks(connector))

    def worked(self, connector: Supervised, batch: Batch) -> None:
        """It has ended a batch."""
        if self.connectors.get(connector.name) is not connector:
            return
        self.metrics.add(connector.name, batch)
        known = self.topics.setdefault(connector.name, {})
        for topic in batch.topics:
            if topic not in known:
                known[topic] = self._clock.now_ms()
                self._store.note([statuses.topic_entry(connector.name, topic, known[topic])])

    def fell(self, connector: Supervised) -> None:
        """A process of it has ended otherwise than in good order."""
        self._leftovers.end(connector.name)

    def said(self, connector: Supervised, line: str) -> None:
        """Its process wrote a line to standard error."""
        self._say(f"{connector.name}: {line}")

    def _tasks_of(self, connector: Supervised) -> list[Config]:
        """The configs of a connector's tasks: each is given all of its own."""
        config = self._applied[connector.name]
        return [{**config, "task.class": config.get(CLASS, "")}] * connector.tasks

    async def _write_tasks(self, connector: Supervised) -> None:
        """Have the topic of configs say which tasks a connector has."""
        name = connector.name
        try:
            async with self.locks[name]:
                is_there = self.connectors.get(name) is connector and name in self._store.configs.connectors
                if is_there and self._store.configs.targets.get(name) is not Target.STOPPED:
                    await self._store.write_configs(task_entries(name, self._tasks_of(connector)))
        except Exception as error:
            # They are written with the next change of its state.
            logger.warning("the tasks of connector %s are not written now: %s", name, error)

    def _note_status(self, connector: Supervised) -> None:
        name, view = connector.name, connector.life.view
        if self._is_closing and self._store.configs.targets.get(name, Target.STARTED) is Target.STARTED:
            view = view._replace(connector=State.UNASSIGNED, tasks=State.UNASSIGNED)
        count = connector.tasks if view.has_tasks else 0
        speaker = (self._settings.worker_id, connector.starts, self.kinds[name].version)
        self._store.note(status_entries(name, view, count, *speaker, known=self._store.statuses.tasks.get(name, {})))

    def _read(self, of: Callable[[Supervised], float]) -> Iterator[tuple[Labels, float]]:
        return (((name,), of(each)) for name, each in self.connectors.items())

    def _read_states(self) -> Iterator[tuple[Labels, float]]:
        return (((name, each.life.view.tasks.value), 1) for name, each in self.connectors.items())


def _words(connector: Supervised) -> str:
    """What is said of a connector that has come so far; its falls it tells itself."""
    life = connector.life
    if life.phase is Phase.STARTING:
        return "starting Spark"
    if life.phase is Phase.RUNNING:
        return f"running with {connector.tasks} task{'' if connector.tasks == 1 else 's'}"
    return life.target.value.lower() if life.phase is Phase.IDLE and life.target is not Target.STARTED else ""
