"""A cluster of fake brokers, each with a real controller, on one real tree; it prints what brokers are told."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from millstream.controller.balance import Kind
from millstream.controller.controller import Controller
from millstream.controller.interface import (
    LEADER_DURING_DELETE,
    ControllerSettings,
    MorePartitions,
    NewTopic,
    PartitionOutcome,
    TopicResult,
)
from millstream.controller.reassignment import Move
from millstream.controller.requests import FULL
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from millstream.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from millstream.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from millstream.protocol.types import INT32_MAX
from millstream.registry.configs import change_overrides
from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.membership import lay_out, register_broker
from millstream.registry.nodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    OVERRIDES,
    PARTITION_STATE,
    TOPICS,
    BrokerRegistration,
    Endpoint,
)
from millstream.registry.tree import NoNode
from tests.scenarios.script import Command

KINDS = {0: "unknown", 1: "", 2: " full"}


class FirstPlace(random.Random):
    """Chance that always begins with the first broker, so that placements can be read."""

    def randrange(self, *args: Any, **kwargs: Any) -> int:
        return 0


class LoopClock:
    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


class FakeBroker:
    """Does what it is told by the controller with the highest epoch, and says so."""

    def __init__(self, broker_id: int, registry: EmbeddedRegistry, cluster: "Cluster") -> None:
        self.broker_id = broker_id
        self.registry = registry
        self.epoch = -1
        self.unreachable_from: set[int] = set()
        self.failing: set[TopicPartition] = set()
        #: Orders it stumbles over, once each.
        self.stumbles: set[str] = set()
        #: What it was told last: (leader, leader epoch, in-sync set) of its replicas, leaders of everything.
        self.roles: dict[TopicPartition, tuple[int, int, list[int]]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.controller = Controller(
            broker_id, registry, LoopClock(), FirstPlace(registry.session_id), cluster, cluster.settings
        )
        self._print = cluster.printed.append
        self._controller_epoch = 0

    def handle(self, request: Any) -> Any:
        name = type(request).__name__.removesuffix("Request")
        if request.controller_epoch < self._controller_epoch:
            self._print(f"{self.broker_id} refuses {name} of epoch {request.controller_epoch}")
            return request.RESPONSE(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        if request.broker_epoch != self.epoch:
            self._print(f"{self.broker_id} refuses {name} for its past")
            return request.RESPONSE(error_code=ErrorCode.STALE_BROKER_EPOCH)
        self._controller_epoch = request.controller_epoch
        if name in self.stumbles:
            self.stumbles.remove(name)
            self._print(f"{self.broker_id} stumbles over {name}")
            raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "as the scenario has it")
        return HANDLERS[type(request)](self, request)

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self._print(f"{self.broker_id} LeaderAndIsr{KINDS[request.type]} by {request.controller_id}")
        topics = []
        if request.type == FULL:
            self.roles.clear()
        for topic in request.topic_states:
            answers = LeaderAndIsrTopicError(topic_id=topic.topic_id)
            topics.append(answers)
            for state in topic.partition_states:
                key = TopicPartition(topic.topic_name, state.partition_index)
                self.roles[key] = (state.leader, state.leader_epoch, state.isr)
                error = ErrorCode.KAFKA_STORAGE_ERROR if key in self.failing else ErrorCode.NONE
                answers.partition_errors.append(
                    LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=error)
                )
                self._print(
                    f"  {key} leader={state.leader} epoch={state.leader_epoch} isr={joined(state.isr)} "
                    f"replicas={joined(state.replicas)} version={state.partition_epoch}"
                    + " new" * state.is_new
                    + " recovering" * state.leader_recovery_state
                    + f" {error.name}" * bool(error)
                )
        return LeaderAndIsrResponse(topics=topics)

    def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        live = joined(broker.id for broker in request.live_brokers)
        self._print(f"{self.broker_id} UpdateMetadata{KINDS[request.type]} by {request.controller_id} live={live}")
        if request.type == FULL:
            self.leaders.clear()
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = TopicPartition(topic.topic_name, state.partition_index)
                self.leaders[key] = state.leader
                if state.leader == LEADER_DURING_DELETE:
                    del self.leaders[key]
                offline = f" offline={joined(state.offline_replicas)}" if state.offline_replicas else ""
                self._print(f"  {topic.topic_name}-{state.partition_index} leader={state.leader}{offline}")
        return UpdateMetadataResponse()

    def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        self._print(f"{self.broker_id} StopReplica by {request.controller_id}")
        response = StopReplicaResponse()
        for topic in request.topic_states:
            assert any(topic.topic_id), "a later topic of the name must not be meant"
            for state in topic.partition_states:
                verb = "delete" if state.delete_partition else "stop"
                key = TopicPartition(topic.topic_name, state.partition_index)
                self.roles.pop(key, None)
                error = ErrorCode.KAFKA_STORAGE_ERROR if key in self.failing else ErrorCode.NONE
                response.partition_errors.append(
                    StopReplicaPartitionError(topic_name=key.topic, partition_index=key.partition, error_code=error)
                )
                self._print(f"  {verb} {key} epoch={state.leader_epoch}" + f" {error.name}" * bool(error))
        return response


HANDLERS: dict[type, Callable[[FakeBroker, Any], Any]] = {
    LeaderAndIsrRequest: FakeBroker._leader_and_isr,
    UpdateMetadataRequest: FakeBroker._update_metadata,
    StopReplicaRequest: FakeBroker._stop_replica,
}


def joined(numbers: Any) -> str:
    return ",".join(map(str, numbers))


def key_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


class Cluster:
    """Performs the commands of a scenario; after each, time passes until nothing more happens."""

    def __init__(self) -> None:
        self.settings = ControllerSettings(
            unclean_allowed=lambda topic: topic.startswith("unclean"),
            min_in_sync=self.min_in_sync,
            balance_interval_ms=300_000,
        )
        self.printed: list[str] = []
        self.tree = EmbeddedTree(call_soon=asyncio.get_running_loop().call_soon)
        self.brokers: dict[int, FakeBroker] = {}
        self._crashed: dict[int, FakeBroker] = {}
        self._calls: list[asyncio.Task[None]] = []

    def min_in_sync(self, topic: str) -> int:
        """As its settings have it."""
        settings = OVERRIDES.decode(self.tree._store.get(OVERRIDES.path(TOPICS, topic)).data)
        return int(settings.get("min.insync.replicas", 1))

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The channels of every controller."""
        await asyncio.sleep(0.001 * broker_id)  # Brokers answer in order, so that the print does not depend on luck.
        broker = self.brokers.get(broker_id)
        if broker is None or request.controller_id in broker.unreachable_from:
            raise ConnectionRefusedError(f"broker {broker_id} is not there")
        return broker.handle(request)

    async def perform(self, command: Command) -> list[str]:
        self.printed.clear()
        await getattr(self, f"do_{command.name}")(command)
        await asyncio.sleep(2)
        return list(self.printed)

    async def close(self) -> None:
        for broker in self.brokers.values():
            await broker.controller.close()
        for call in self._calls:
            call.cancel()
        await self.tree.close()

    async def do_start(self, command: Command) -> None:
        """start ID… [rack=R] [clean]: brokers register and stand for election; ``clean`` if they stopped cleanly."""
        is_clean = "clean" in command.arguments
        for broker_id in map(int, (word for word in command.arguments if word != "clean")):
            registry = self.tree.session()
            await lay_out(registry)
            broker = FakeBroker(broker_id, registry, self)
            self.brokers[broker_id] = broker
            endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", 9092)
            registration = BrokerRegistration((endpoint,), rack=command.options.get("rack"), is_clean=is_clean)
            broker.epoch = await register_broker(registry, broker_id, registration)
            await broker.controller.start()

    async def do_kill(self, command: Command) -> None:
        """kill ID…: brokers vanish at once, and their sessions with them."""
        for broker_id in map(int, command.arguments):
            broker = self.brokers.pop(broker_id)
            self._silence(broker)
            turns = broker.controller._turns
            assert turns._handler is not None
            turns._handler.cancel()
            broker.controller._resign()

    async def do_deafen(self, command: Command) -> None:
        """deafen ID [registered]: its session is over and nobody tells it, as when a process was paused.

        With ``registered`` its session lasts, and yet it hears of nothing.
        """
        broker = self.brokers[int(command.arguments[0])]
        if "registered" in command.arguments:
            for watch in broker.registry._set_watches:
                watch.cancel()
        else:
            self._silence(broker)

    def _silence(self, broker: FakeBroker) -> None:
        for watch in broker.registry._set_watches:
            watch.cancel()
        self.tree._announce(self.tree._store.drop_ephemerals(broker.registry.session_id))

    async def do_expire(self, command: Command) -> None:
        """expire ID: its session is over, it hears of it, and registers again."""
        broker = self.brokers[int(command.arguments[0])]
        broker.registry.expire()
        endpoint = Endpoint("PLAINTEXT", f"host{broker.broker_id}", 9092)
        registration = BrokerRegistration((endpoint,), is_clean=True)  # It lost nothing but its session.
        broker.epoch = await register_broker(broker.registry, broker.broker_id, registration)

    async def do_crash(self, command: Command) -> None:
        """crash ID…: brokers vanish at once, and their sessions stay; only their sockets tell."""
        for broker_id in map(int, command.arguments):
            broker = self.brokers.pop(broker_id)
            for watch in broker.registry._set_watches:
                watch.cancel()
            turns = broker.controller._turns
            assert turns._handler is not None
            turns._handler.cancel()
            broker.controller._resign()
            self._crashed[broker_id] = broker

    async def do_lost(self, command: Command) -> None:
        """lost ID: the controller is told that this broker no longer listens."""
        broker_id = int(command.arguments[0])
        epoch = {**self._crashed, **self.brokers}[broker_id].epoch - ("past" in command.arguments)
        await self._active().controller.broker_lost(broker_id, epoch)

    async def do_dead(self, command: Command) -> None:
        """dead ID by=ID: a broker finds that the controller no longer listens."""
        observer = self.brokers[int(command.options["by"])]
        await observer.controller.claim_is_dead(int(command.arguments[0]))

    async def do_register(self, command: Command) -> None:
        """register ID: it finds its registration gone, and makes another."""
        broker = self.brokers[int(command.arguments[0])]
        endpoint = Endpoint("PLAINTEXT", f"host{broker.broker_id}", 9092)
        registration = BrokerRegistration((endpoint,), is_clean=True)
        broker.epoch = await register_broker(broker.registry, broker.broker_id, registration)

    async def do_alarm(self, command: Command) -> None:
        """alarm ID: it is taken for dead by the controller, or by another broker if it is controller; falsely."""
        broker_id = int(command.arguments[0])
        if self._active().broker_id == broker_id:
            observer = next(number for number in self.brokers if number != broker_id)
            await self.brokers[observer].controller.claim_is_dead(broker_id)
        else:
            await self.do_lost(command)
        await self.do_register(command)

    async def do_set(self, command: Command) -> None:
        """set NAME KEY.NAME=VALUE…: a topic's settings change; the controller hears of it."""
        (name,) = command.arguments
        await change_overrides(self._active().registry, TOPICS, name, lambda before: {**before, **command.options})
        self._active().controller.topic_changed(name)

    async def do_wait(self, command: Command) -> None:
        """wait SECONDS"""
        await asyncio.sleep(int(command.arguments[0]))

    async def do_cut(self, command: Command) -> None:
        """cut ID from=ID,ID: requests of these do not reach it; it stays registered."""
        broker = self.brokers[int(command.arguments[0])]
        broker.unreachable_from = set(map(int, command.options["from"].split(",")))

    async def do_heal(self, command: Command) -> None:
        self.brokers[int(command.arguments[0])].unreachable_from = set()

    async def do_fail(self, command: Command) -> None:
        """fail ID PARTITION…: the disk of these replicas; told when the broker next hears of them."""
        broker_id, *keys = command.arguments
        self.brokers[int(broker_id)].failing |= {key_of(key) for key in keys}

    async def do_lose(self, command: Command) -> None:
        """lose ID PARTITION…: the disk of these replicas fails, and the broker says so at once."""
        await self.do_fail(command)
        broker_id, *keys = command.arguments
        await self._active().controller.replicas_failed(int(broker_id), map(key_of, keys))

    async def do_trip(self, command: Command) -> None:
        """trip ID ORDER: the broker stumbles over the next order of this kind."""
        broker_id, order = command.arguments
        self.brokers[int(broker_id)].stumbles.add(order)

    async def do_create(self, command: Command) -> None:
        """create NAME [partitions=N] [replicas=N] [assign=1,2/2,3] [KEY.NAME=VALUE…] [validate] [at=ID]"""
        options = dict(command.options)
        broker = self.brokers[int(options.pop("at"))] if "at" in options else self._active()
        assign = options.pop("assign", "")
        topic = NewTopic(
            command.arguments[0],
            int(options.pop("partitions", -1)),
            int(options.pop("replicas", -1)),
            {
                number: [int(replica) for replica in replicas.split(",")]
                for number, replicas in enumerate(assign.split("/") if assign else ())
            },
            options,
        )
        await self._call(broker.controller.create_topics([topic], "validate" in command.arguments))

    async def do_widen(self, command: Command) -> None:
        """widen NAME COUNT"""
        name, count = command.arguments
        await self._call(self._active().controller.create_partitions([MorePartitions(name, int(count))]))

    async def do_delete(self, command: Command) -> None:
        """delete NAME…"""
        await self._call(self._active().controller.delete_topics(command.arguments))

    async def do_shutdown(self, command: Command) -> None:
        """shutdown ID: it asks to stop."""

        async def shut_down() -> list[TopicResult]:
            remaining = await self._active().controller.controlled_shutdown(int(command.arguments[0]))
            self.printed.append(f"remaining: {joined(remaining) or 'none'}")
            return []

        await self._call(shut_down())

    async def do_prefer(self, command: Command) -> None:
        """prefer [PARTITION…]: elect preferred leaders, of all if none is named."""
        await self._elect(Kind.PREFERRED, command)

    async def do_force(self, command: Command) -> None:
        """force [PARTITION…]: elect whoever is there."""
        await self._elect(Kind.UNCLEAN, command)

    async def _elect(self, kind: Kind, command: Command) -> None:
        keys = [key_of(text) for text in command.arguments] or None
        self._print_outcomes(await self._active().controller.elect_leaders(kind, keys))

    async def do_move(self, command: Command) -> None:
        """move PARTITION ID,ID… [keep]: to these brokers; to ``back`` takes the move back."""
        key, target, *words = command.arguments
        move = Move(key_of(key), None if target == "back" else [int(text) for text in target.split(",") if text != "-"])
        controller = self._active().controller
        self._print_outcomes(await controller.reassign([move], may_change_factor="keep" not in words))

    async def do_moves(self, command: Command) -> None:
        """moves: those under way."""
        for key, moved in (await self._active().controller.reassignments()).items():
            self.printed.append(
                f"{key} replicas={joined(moved.replicas)} adding={joined(moved.adding)} "
                f"removing={joined(moved.removing)}"
            )

    def _print_outcomes(self, outcomes: list[PartitionOutcome]) -> None:
        for outcome in outcomes:
            said = f"{outcome.error_code.name}: {outcome.error_message}" if outcome.error_code else "ok"
            self.printed.append(f"{outcome.partition}: {said}")

    async def do_isr(self, command: Command) -> None:
        """isr PARTITION ID,ID… by=ID epoch=N version=N [min=N] [past=ID] [unseen=ID]: a leader asks for this set.

        ``min`` is how many must be in sync as the leader has heard.  ``past`` names a replica that the leader saw in an
        earlier life, or the leader itself if it has one.
        """
        key, options = key_of(command.arguments[0]), command.options
        controller = self._active().controller
        assert controller._context is not None

        def epoch_of(number: int) -> int:
            if options.get("unseen") == str(number) or number not in self.brokers:
                return -1
            return self.brokers[number].epoch - (options.get("past") == str(number))

        asked = AlterPartitionPartition(
            partition_index=key.partition,
            leader_epoch=int(options["epoch"]),
            partition_epoch=int(options["version"]),
            min_in_sync=int(options.get("min", INT32_MAX)),
            new_isr_with_epochs=[
                BrokerState(broker_id=number, broker_epoch=epoch_of(number))
                for number in map(int, command.arguments[1].split(","))
            ],
        )
        leader = int(options["by"])
        topic_id = controller._context.topics[key.topic].topic_id
        response = await controller.alter_partitions(
            AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=epoch_of(leader),
                topics=[AlterPartitionTopic(topic_id=topic_id, partitions=[asked])],
            )
        )
        if response.error_code:
            self.printed.append(ErrorCode(response.error_code).name)
            return
        (answer,) = response.topics[0].partitions
        error = ErrorCode(answer.error_code)
        self.printed.append(error.name if error else f"isr={joined(answer.isr)} version={answer.partition_epoch}")

    async def do_show(self, command: Command) -> None:
        """show PARTITION…|controller|PATH: what the registry holds."""
        registry = self.tree.session()
        for what in command.arguments:
            if what == "controller":
                epoch = CONTROLLER_EPOCH.decode((await registry.get(CONTROLLER_EPOCH.path())).data)
                claim = CONTROLLER.decode((await registry.get(CONTROLLER.path())).data)
                self.printed.append(f"broker {claim.broker_id} epoch {epoch}")
                active = [number for number, broker in self.brokers.items() if broker.controller.is_active]
                self.printed.append(f"active: {joined(active)}")
                continue
            path = what if what.startswith("/") else PARTITION_STATE.path(*key_of(what))
            try:
                children = await registry.children(path)
                self.printed.append((await registry.get(path)).data.decode() or f"[{', '.join(children)}]")
            except NoNode:
                self.printed.append("no node")

    def _active(self) -> FakeBroker:
        """The controller by the registry's word, wherever others may still think so."""
        node = self.tree._store.get(CONTROLLER.path())
        return self.brokers[CONTROLLER.decode(node.data).broker_id]

    async def _call(self, call: Any) -> None:
        """Print the answer when it comes; the scenario goes on without it."""

        async def run() -> None:
            try:
                results: list[TopicResult] = await call
            except ProtocolError as error:
                self.printed.append(f"raised {error}")
                return
            for result in results:
                outcome = f"{result.error_code.name}: {result.error_message}" if result.error_code else "ok"
                self.printed.append(f"{result.name}: {outcome}")

        self._calls.append(asyncio.create_task(run()))
