"""The controller: the one broker that decides who leads what, and tells the others.

Events (a call, a watch, a broker's answer) have their turns.  Handling one is: decide (pure), write, replay, tell.  A
write that fails leaves only one thing certain, namely that the registry knows better: the controller resigns, and
whoever is elected next reads everything anew.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from millstream.controller import answers, balance, brokers, deletion, directories, in_sync, reassignment, topics
from millstream.controller.context import Context, TopicCreated, TopicErased
from millstream.controller.election import Election
from millstream.controller.interface import ControllerSettings, MorePartitions, NewTopic, PartitionOutcome, TopicResult
from millstream.controller.loading import load, load_brokers
from millstream.controller.outbox import Outbox, all_told
from millstream.controller.reassignment import Move
from millstream.controller.requests import Decision, requests
from millstream.controller.turns import Turns
from millstream.controller.writes import fence, transactions
from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.net.channels import Channels
from millstream.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import StopReplicaResponse
from millstream.registry.nodes import BROKER, BROKER_IDS, CONTROLLER, LOG_DIR_EVENTS, OVERRIDES, TOPICS, Assignment
from millstream.registry.tree import Delete, NoNode, Registry, RegistryError, RegistryFailure, Watch

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How often the wait between failed attempts to be controller is doubled.
BACKOFF_DOUBLINGS_MAX = 6
#: How long a controller that stops tries to take its claim back.
STEP_DOWN_S = 2.0


class Controller:
    """One broker's part in being controller: standing for it, being it, and giving it up."""

    def __init__(
        self,
        broker_id: int,
        registry: Registry,
        clock: Clock,
        generator: random.Random,
        channels: Channels,
        settings: ControllerSettings,
    ) -> None:
        """``generator`` draws where placements start and what topics' ids are."""
        self.settings = settings
        self._broker_id = broker_id
        self._registry = registry
        self._dice = generator
        self._channels = channels
        self._election = Election(broker_id, registry, clock)
        self._context: Context | None = None
        self._outboxes: dict[int, Outbox] = {}
        self._deletions: dict[str, asyncio.Future[None]] = {}
        self._turns = Turns(self._failed)
        self._retry: asyncio.TimerHandle | None = None
        self._failures = 0  #: in a row
        self._balancing: asyncio.TimerHandle | None = None
        self._watches: list[Watch] = []

    @property
    def is_active(self) -> bool:
        """Whether this broker is controller, as far as it knows."""
        return self._context is not None

    @property
    def epoch(self) -> int:
        """The epoch this broker was elected under; -1 while it is not controller."""
        return -1 if self._context is None else self._context.epoch

    async def start(self) -> None:
        """Stand for election, now and whenever nobody is controller.

        The broker must be registered, and ready to be sent requests.  When this returns, somebody was controller; if
        it is this broker, it has told itself every role and all metadata.
        """
        self._turns.start()
        for path, event, children in (
            (CONTROLLER.path(), self._controller_changed, False),
            (BROKER_IDS.path(), self._brokers_changed, True),
            (LOG_DIR_EVENTS.path(), self._directories_failed, True),
        ):
            self._watches.append(await self._registry.watch(path, self._turns.poster(event), children=children))
        self._registry.on_session_expired(self._turns.poster(self._controller_changed))
        await self._turns.ask(self._controller_changed)
        await self._told()

    async def close(self) -> None:
        """Resign, and stand no more."""
        for watch in self._watches:
            watch.cancel()
        if not self._turns.is_open:
            return
        with suppress(RegistryError, TimeoutError):  # Without a registry, the claim goes with the session.
            async with asyncio.timeout(STEP_DOWN_S):
                await self._turns.ask(self._step_down)
        if self._retry is not None:
            self._retry.cancel()
        await self._turns.close(self._refusal())

    async def create_topics(self, asked: Sequence[NewTopic], validate_only: bool = False) -> list[TopicResult]:
        """Create topics, or only say whether they could be; answered when every broker knows the new ones.

        A result for each, in order.  NOT_CONTROLLER is raised.
        """

        async def create(context: Context) -> list[TopicResult]:
            decision, results = topics.create_topics(context, asked, self.settings, self._dice)
            if validate_only:
                return [replace(result, topic_id=ZERO_UUID) for result in results]
            await self._carry_out(context, decision)
            return results

        return await self._known_to_all(self._as_controller(create))

    async def create_partitions(
        self, asked: Sequence[MorePartitions], validate_only: bool = False
    ) -> list[TopicResult]:
        """Widen topics; as ``create_topics``."""

        async def widen(context: Context) -> list[TopicResult]:
            decision, results = topics.add_partitions(context, asked)
            if not validate_only:
                await self._carry_out(context, decision)
            return results

        return await self._known_to_all(self._as_controller(widen))

    async def delete_topics(self, asked: Sequence[str | Uuid]) -> list[TopicResult]:
        """Delete topics by name or id; answered when they are gone for good, or, where a replica's broker is away,
        marked and no longer served.
        """

        async def doom(context: Context) -> list[TopicResult]:
            decision, results = deletion.doom_topics(context, asked, self.settings)
            await self._carry_out(context, decision)
            doomed = [result.name for result in results if not result.error_code and result.name]
            for name in doomed:
                self._deletions.setdefault(name, asyncio.get_running_loop().create_future())
            await self._pursue_deletions(context, doomed)
            return results

        results = await self._known_to_all(self._as_controller(doom))
        pending = [self._deletions[result.name] for result in results if result.name in self._deletions]
        if pending:
            await asyncio.wait(pending)
        return results

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int = -1) -> list[TopicPartition]:
        """Hand over what ``broker_id`` leads; the partitions that nobody could take."""

        async def leave(context: Context) -> list[TopicPartition]:
            await self._carry_out(context, brokers.leave(context, broker_id, broker_epoch, self.settings))
            return brokers.still_led(context, broker_id)

        return await self._as_controller(leave)

    async def alter_partitions(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Change in-sync sets as their leaders ask; answered when it is written."""

        async def alter(context: Context) -> AlterPartitionResponse:
            decision, response = in_sync.alter_partitions(context, request, self.settings)
            await self._carry_out(context, decision)
            await self._finish_moves(context, decision.announced)
            return response

        return await self._as_controller(alter)

    async def elect_leaders(
        self, kind: balance.Kind, partitions: Iterable[TopicPartition] | None
    ) -> list[PartitionOutcome]:
        """Elect leaders of these partitions, or of all where it is needed; answered when this broker knows them."""

        async def elect(context: Context) -> list[PartitionOutcome]:
            await self.settings.refresh()
            decision, outcomes = balance.elect_leaders(context, kind, partitions, self.settings)
            await self._carry_out(context, decision)
            return outcomes

        return await self._as_controller(elect)

    async def reassign(self, moves: Sequence[Move], *, may_change_factor: bool = True) -> list[PartitionOutcome]:
        """Begin, replace or take back moves of partitions; answered when that is written."""

        async def begin(context: Context) -> list[PartitionOutcome]:
            await self.settings.refresh()
            decision, outcomes = reassignment.reassign(
                context, moves, self.settings, may_change_factor=may_change_factor
            )
            await self._carry_out(context, decision)
            await self._finish_moves(context, [move.partition for move in moves])
            return outcomes

        return await self._as_controller(begin)

    async def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Assignment]:
        """Those of these partitions, or of all, that are being moved."""

        async def look(context: Context) -> dict[TopicPartition, Assignment]:
            wanted = None if partitions is None else set(partitions)
            found = ((key, context.partition(key)) for key in reassignment.moving(context))
            return {
                key: partition.assignment
                for key, partition in found
                if partition is not None and (wanted is None or key in wanted)
            }

        return await self._as_controller(look)

    async def replicas_failed(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """A log directory of ``broker_id`` failed: others lead these, or nobody until it registers anew.

        Answered when this broker was told; partitions that are not its replicas are passed over.
        """
        failed = set(partitions)

        async def lose(context: Context) -> None:
            await self._lose_replicas(context, broker_id, failed)

        await self._as_controller(lose)

    def topic_changed(self, topic: str) -> None:
        """A topic's settings have changed: with fewer replicas that must be in sync, others are eligible no more."""

        async def correct() -> None:
            context = self._context
            if context is not None:
                await self._carry_out(context, brokers.topic_changed(context, topic, self.settings))

        if self.is_active:
            self._turns.post(correct)

    # Quick detection: a process that died is told by its sockets, long before its session ends.

    async def broker_lost(self, broker_id: int, broker_epoch: int) -> None:
        """A broker seems dead: forget its registration, unless it has another by now, as if its session had ended.

        One that lives after all has lost no more than its registration, and makes a new one.  NOT_CONTROLLER is raised.
        """
        path = BROKER.path(broker_id)

        async def forget(context: Context) -> None:
            (node,) = await self._registry.get_many([path])
            if node is not None and node.czxid == broker_epoch:
                with suppress(NoNode):
                    await self._registry.multi([fence(context), Delete(path)])
                    _log.info("broker %d is gone: its process no longer listens", broker_id)
                await self._brokers_changed()

        await self._as_controller(forget)

    async def claim_is_dead(self, controller_id: int) -> None:
        """The controller seems dead: become controller in its place, unless somebody else is by now.

        One that lives after all can write nothing more, and finds out.
        """

        async def unseat() -> None:
            mandate = None if self.is_active else await self._election.unseat(controller_id)
            if mandate is not None:
                _log.info("controller %d is gone: its process no longer listens", controller_id)
                await self._take_over(Context(self._broker_id, *mandate))

        if self._turns.is_open:
            await self._turns.ask(unseat)

    # Events.

    async def _controller_changed(self) -> None:
        """Stand when nobody is controller; resign when somebody else is."""
        sitting = await self._election.sitting()
        if sitting is not None and sitting.is_ours:
            if self.is_active:
                return
            await self._election.step_down()  # A claim from before we resigned.
            sitting = None
        self._resign()
        if sitting is not None:
            return
        mandate = await self._election.stand()
        if mandate is not None:
            await self._take_over(Context(self._broker_id, *mandate))

    async def _take_over(self, context: Context) -> None:
        await load(self._registry, context)
        await self.settings.refresh()
        await self.settings.load(list(context.topics))  # This broker may not have heard of the latest.
        self._context = context
        _log.info("broker %d is controller, epoch %d", context.controller_id, context.epoch)
        self._open_outboxes(context)
        await self._carry_out(context, topics.give_topic_ids(context, self._dice))
        await self._carry_out(context, brokers.take_over(context, self.settings))
        await self._finish_moves(context, reassignment.moving(context))
        await self._pursue_deletions(context, context.doomed)
        self._balance_later()
        self._failures = 0

    async def _brokers_changed(self) -> None:
        context = self._context
        if context is None:
            return
        now = await load_brokers(self._registry)
        await self.settings.refresh()
        before = context.brokers
        gone = {number for number, broker in before.items() if number not in now or now[number].epoch != broker.epoch}
        came = {number for number in now if number not in before or number in gone}
        if gone:
            # One that came back at once is gone first: what it led, it led in another life.
            context.brokers = {number: broker for number, broker in before.items() if number not in gone}
            context.leaving -= gone
            for number in gone:
                context.failed.pop(number, None)
                self._outboxes.pop(number).close()
            deletion.interrupt(context, gone)
            await self._carry_out(context, brokers.brokers_went(context, gone, self.settings))
            self._end_halted_deletions(context)
        if came or now != context.brokers:
            context.brokers = now
            self._open_outboxes(context)
            await self._carry_out(context, brokers.brokers_came(context, came, self.settings))
            await self._finish_moves(context, reassignment.moving(context))
            await self._pursue_deletions(context, context.doomed)

    async def _directories_failed(self) -> None:
        context = self._context
        if context is not None:
            named = await directories.take_notices(self._registry, fence(context))
            await self._carry_out(context, directories.tell_again(context, named))

    async def _step_down(self) -> None:
        self._resign()
        await self._election.step_down()

    async def _answered(self, context: Context, broker_id: int, request: Any, response: Any) -> None:
        """Act on what a broker answered, unless it was asked in an earlier term, or in an earlier life of its own."""
        if context is not self._context:
            return
        if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
            await self._controller_changed()
            if context is not self._context:
                return
        broker = context.brokers.get(broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return
        if isinstance(response, StopReplicaResponse):
            decision = deletion.replicas_deleted(context, broker_id, answers.deletions(request, response))
            await self._carry_out(context, decision)
            self._end_deletions(change.name for change in decision.changes if isinstance(change, TopicErased))
            self._end_halted_deletions(context)
        elif isinstance(response, LeaderAndIsrResponse):
            await self._lose_replicas(context, broker_id, answers.unserved(context, request, response))

    async def _lose_replicas(self, context: Context, broker_id: int, failed: set[TopicPartition]) -> None:
        known = context.failed.setdefault(broker_id, set())
        new = sorted(key for key in failed - known if context.has_replica(key, broker_id))
        if new:
            known.update(new)
            await self.settings.refresh()
            await self._carry_out(context, brokers.replicas_failed(context, new, self.settings))

    # Moves under way, and leaders where they should be.

    async def _finish_moves(self, context: Context, partitions: Iterable[TopicPartition]) -> None:
        await self._carry_out(context, reassignment.finish(context, partitions, self.settings))

    def _balance_later(self) -> None:
        interval_ms = self.settings.balance_interval_ms
        if interval_ms is not None:
            loop = asyncio.get_running_loop()
            self._balancing = loop.call_later(interval_ms / 1_000, self._turns.poster(self._balance))

    async def _balance(self) -> None:
        context = self._context
        if context is not None:
            keys = balance.misled(context, self.settings.imbalance_percentage)
            decision, _ = balance.elect_leaders(context, balance.Kind.PREFERRED, keys, self.settings)
            await self._carry_out(context, decision)
            self._balance_later()

    # Deletions under way.

    async def _pursue_deletions(self, context: Context, names: Iterable[str]) -> None:
        await self._carry_out(context, deletion.pursue(context, names))
        self._end_halted_deletions(context)

    def _end_halted_deletions(self, context: Context) -> None:
        waited = [name for name in self._deletions if name in context.topics]
        self._end_deletions(name for name in waited if deletion.is_halted(context.topics[name]))

    def _end_deletions(self, names: Iterable[str]) -> None:
        for name in names:
            ended = self._deletions.pop(name, None)
            if ended is not None and not ended.done():
                ended.set_result(None)

    # Deciding, writing, telling.

    async def _carry_out(self, context: Context, decision: Decision) -> None:
        """Write the changes, take them in, and tell brokers."""
        names = [change.name for change in decision.changes if isinstance(change, TopicCreated | TopicErased)]
        found = await self._registry.get_many([OVERRIDES.path(TOPICS, name) for name in names]) if names else []
        context.configured = {name for name, node in zip(names, found, strict=True) if node is not None}
        for ops in transactions(context, decision.changes):
            await self._registry.multi(ops)
        for change in decision.changes:
            context.replay(change)
        if names:
            await self.settings.load(names)
        for broker_id, request in requests(context, decision, self.settings.inter_broker_listener_name):
            self._outboxes[broker_id].put(request)

    def _open_outboxes(self, context: Context) -> None:
        def on_response(broker_id: int, request: Any, response: Any) -> None:
            self._turns.post(lambda: self._answered(context, broker_id, request, response))

        for broker_id in context.brokers.keys() - self._outboxes.keys():
            self._outboxes[broker_id] = Outbox(broker_id, self._channels, self.settings.retry_backoff_ms, on_response)

    async def _told(self) -> None:
        own = self._outboxes.get(self._broker_id)
        if own is not None:
            await own.told()

    def _resign(self) -> None:
        """Forget everything; what was asked of brokers and not answered is no longer ours to pursue."""
        if self._context is not None:
            _log.info("broker %d is no longer controller, epoch %d", self._broker_id, self._context.epoch)
        self._context = None
        if self._balancing is not None:
            self._balancing.cancel()
        for outbox in self._outboxes.values():
            outbox.close()
        self._outboxes.clear()
        self._end_deletions(list(self._deletions))  # They are marked: the next controller goes on with them.

    # Being asked.

    async def _as_controller(self, act: Callable[[Context], Awaitable[T]]) -> T:
        """Handle ``act`` in its turn; answered when this broker was told what follows from it."""

        async def event() -> T:
            if self._context is None:
                raise self._refusal()
            return await act(self._context)

        if not self._turns.is_open:
            raise self._refusal()
        try:
            result = await self._turns.ask(event)
        except RegistryFailure as error:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except RegistryError as error:
            raise ProtocolError(ErrorCode.NOT_CONTROLLER, f"the registry refused a write at {error}") from error
        await self._told()
        return result

    async def _known_to_all(self, asked: Awaitable[T]) -> T:
        """The same answer, once every broker has heard: the client may go to any, and is not refused what it made."""
        result = await asked
        await all_told(self._outboxes.values())
        return result

    def _refusal(self) -> ProtocolError:
        return ProtocolError(ErrorCode.NOT_CONTROLLER, f"broker {self._broker_id} is not the controller")

    def _failed(self, error: Exception) -> None:
        """Only the registry knows now what is so: forget everything, and stand again later."""
        if isinstance(error, RegistryError):
            _log.warning("the registry refused: %s", error)
        else:
            _log.error("the controller failed", exc_info=error)
        self._resign()
        if self._retry is not None:
            self._retry.cancel()
        delay_ms = self.settings.retry_backoff_ms << min(self._failures, BACKOFF_DOUBLINGS_MAX)
        self._failures += 1
        loop = asyncio.get_running_loop()
        self._retry = loop.call_later(delay_ms / 1_000, self._turns.poster(self._controller_changed))
