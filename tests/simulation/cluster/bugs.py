"""Bugs that others have had, planted in the production code to see that the simulation finds them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from millstream.broker.markers import Markers
from millstream.broker.orders import Orders
from millstream.controller import brokers, leaders
from millstream.controller.context import StateDecided
from millstream.controller.elections import Elected
from millstream.replication.following.followed import Followed
from millstream.replication.leading import Leading
from millstream.replication.partition import Partition
from millstream.replication.replicas import Replicas
from millstream.replication.role import Role

Patches = list[AbstractContextManager[Any]]


def _truncate_by_watermark() -> Patches:
    """A follower cuts its log to its own high watermark, which lags, instead of asking by epoch (KIP-101)."""
    begin = Followed.__init__

    def cut_first(self: Followed, partition: Partition, backoff_ms_max: int) -> None:
        log = partition.log
        if log is not None and partition.high_watermark < log.end_offset:
            partition.truncate_to(partition.high_watermark)
        begin(self, partition, backoff_ms_max)

    return [patch.object(Followed, "__init__", cut_first)]


def _ignore_epochs() -> Patches:
    """Whatever a controller of before says is done, whoever it was said to, and every fetch is answered."""
    return [
        patch.object(Role, "is_stale", lambda self, told: False),
        patch.object(Replicas, "staleness", lambda self, controller_epoch, broker_epoch: None),
        patch.object(Partition, "_fence", lambda self, current_leader_epoch: None),
    ]


def _acknowledge_at_once() -> Patches:
    """A leader shows and acknowledges what no follower has."""
    return [patch.object(Leading, "high_watermark", lambda self, current, own_end, min_insync: own_end)]


def _elect_anybody() -> Patches:
    """The first live replica leads, in sync or not."""

    def anybody(replicas: Any, isr: Any, live: Any, **_: Any) -> Elected | None:
        alive = [replica for replica in replicas if replica in live]
        return Elected(alive[0], (alive[0],)) if alive else None

    return [patch.object(leaders, "offline", anybody)]


def _replace_without_epoch() -> Patches:
    """A leader that was taken for dead is replaced under the same epoch, so that nothing fences it."""
    decide = leaders.decide

    def same_epoch(
        context: Any,
        key: Any,
        partition: Any,
        settings: Any,
        elected: Any,
        told: Any,
        decision: Any,
        *rest: Any,
        **more: Any,
    ) -> None:
        decide(context, key, partition, settings, elected, told, decision, *rest, **more)
        change = decision.changes[-1]
        decision.changes[-1] = StateDecided(key, replace(change.state, leader_epoch=partition.state.leader_epoch))

    return [patch.object(leaders, "decide", same_epoch)]


def _append_without_looking() -> Patches:
    """A leader does not tell a follower that their logs have parted."""
    return [patch.object(Partition, "divergence", lambda self, fetch_offset, last_fetched_epoch: None)]


def _trust_the_returned() -> Patches:
    """A broker that is back from an unclean stop stays in every in-sync set."""
    return [patch.object(brokers, "_came_back_unclean", lambda context: set())]


def _commit_below_minimum() -> Patches:
    """The watermark moves however few replicas are in sync, and whoever else may lead (before KIP-966)."""
    high_watermark = Leading.high_watermark

    def anyway(self: Leading, current: int, own_end: int, min_insync: int) -> int:
        eligible, self.eligible = self.eligible, ()
        try:
            return high_watermark(self, current, own_end, 1)
        finally:
            self.eligible = eligible

    return [patch.object(Leading, "high_watermark", anyway)]


def _join_early() -> Patches:
    """A follower is taken into the in-sync set before it has all that was committed."""
    return [patch.object(Leading, "may_join", lambda self, replica, watermark: replica not in self.isr)]


def _forget_proposals() -> Patches:
    """The watermark waits for the in-sync set as it was, not for those who may just have joined."""
    high_watermark = Leading.high_watermark

    def without(self: Leading, current: int, own_end: int, min_insync: int) -> int:
        maybe, self.maybe = self.maybe, frozenset()
        try:
            return high_watermark(self, current, own_end, min_insync)
        finally:
            self.maybe = maybe

    return [patch.object(Leading, "high_watermark", without)]


def _mark_unreplicated() -> Patches:
    """A transaction counts as ended once its markers are on their leaders alone."""

    async def at_once(self: Markers, owed: Any, results: Any) -> None:
        return None

    return [patch.object(Markers, "_settle", at_once)]


def _obey_for_the_dead() -> Patches:
    """A process follows orders that were meant for its earlier life, of which more may be known than is left."""
    begin = Orders.__init__

    def ready(self: Orders, broker: Any) -> None:
        begin(self, broker)
        self.is_registered.set()

    return [patch.object(Orders, "__init__", ready)]


#: The name to ask for -> what to patch. Each is found within two hundred lives.
BUGS: dict[str, Callable[[], Patches]] = {
    "truncate-by-watermark": _truncate_by_watermark,
    "ignore-epochs": _ignore_epochs,
    "acknowledge-at-once": _acknowledge_at_once,
    "elect-anybody": _elect_anybody,
    "replace-without-epoch": _replace_without_epoch,
    "append-without-looking": _append_without_looking,
    "trust-the-returned": _trust_the_returned,
    "commit-below-minimum": _commit_below_minimum,
    "join-early": _join_early,
    "mark-unreplicated": _mark_unreplicated,
}
#: These are not. For the first an answer must be lost in the very moment before a leader dies, and the tests of
#: ``leading`` find it; for the second an order must be on its way while its process is replaced, and the tests of
#: ``orders`` do.
RARE: dict[str, Callable[[], Patches]] = {
    "forget-proposals": _forget_proposals,
    "obey-for-the-dead": _obey_for_the_dead,
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code has this bug inside the block."""
    with ExitStack() as stack:
        for each in (BUGS | RARE)[name]():
            stack.enter_context(each)
        yield
