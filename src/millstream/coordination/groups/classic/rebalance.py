"""How a classic group comes to its next generation: everyone is called, waited for, and counted."""

from collections.abc import Callable
from typing import Final

from millstream.coordination.decision import NOTHING, Decision, Timer
from millstream.coordination.groups.classic.events import (
    AssignmentRefused,
    InitialDelayOver,
    JoinExpired,
    RebalanceWanted,
    SessionExpired,
    SyncExpired,
)
from millstream.coordination.groups.classic.group import ClassicGroup, State
from millstream.coordination.groups.classic.records import empty_record
from millstream.coordination.groups.classic.turn import Turn, current_generation
from millstream.coordination.groups.group import Groups
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode

#: How soon a meeting to which nobody came is looked at again, where its members' own time-out is shorter.
MEET_AGAIN_AFTER_MS: Final = 1_000


class Rebalances:
    """The way from one generation to the next, and what befalls those who are late."""

    def __init__(self, groups: Groups, settings: Callable[[], GroupSettings]) -> None:
        self._groups = groups
        self._settings = settings

    # Steps.

    def call_or_count(self, group: ClassicGroup, turn: Turn) -> None:
        """Something changed: a group at rest is called together, one that meets already may now be complete."""
        if group.state is State.PREPARING:
            self.count(group, turn)
        else:
            self.call(group, turn)

    def call(self, group: ClassicGroup, turn: Turn) -> None:
        """Begin a rebalance.  An empty group first waits for company, so that a hundred members cause one, not many."""
        if group.state is State.COMPLETING:
            for member_id in list(group.sync_tickets):
                turn.release(group, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
                turn.timers.append(group.session_timer(group.members[member_id]))
        group.pending_sync.clear()
        turn.timers.append(_sync_timer(group, None))
        is_initial = group.state is State.EMPTY
        group.enter(State.PREPARING, turn.now_ms)
        if is_initial:
            group.has_newcomer_since_delay = False
            delay_ms = self._settings().group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            turn.timers.append(
                Timer(_join_key(group), delay_ms, InitialDelayOver(group.group_id, delay_ms, remaining_ms))
            )
        elif group.has_everyone_joined:
            self.close(group, turn)
        else:
            turn.timers.append(_join_timer(group))

    def count(self, group: ClassicGroup, turn: Turn) -> None:
        """Close the meeting if everyone is there; the first one lasts until its delay is over."""
        if group.previous_state is not State.EMPTY:
            self._close_if_complete(group, turn)

    def close(self, group: ClassicGroup, turn: Turn) -> None:
        """Whoever joined is the next generation; static members stay even if they did not, until their session ends."""
        turn.timers.append(Timer(_join_key(group), None))
        for member in list(group.members.values()):
            if member.member_id not in group.join_tickets and member.instance_id is None:
                turn.dismiss(group, member.member_id)
        if not group.members:
            turn.records.append(empty_record(group, turn.now_ms))
        elif not group.elect_joined_leader():
            # Only static members are left, and none of them is here: they have until their sessions end.
            turn.timers.append(_join_timer(group, MEET_AGAIN_AFTER_MS))
        else:
            self._begin_generation(group, turn)

    def dismiss(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """A member, or an id that was handed out, is gone; the others go on without it."""
        is_member = member_id in group.members
        turn.dismiss(group, member_id)
        if is_member and group.state in (State.STABLE, State.COMPLETING):
            self.call(group, turn)
        else:
            self._close_if_complete(group, turn)

    def _close_if_complete(self, group: ClassicGroup, turn: Turn) -> None:
        if group.state is State.PREPARING and group.has_everyone_joined:
            self.close(group, turn)

    def _begin_generation(self, group: ClassicGroup, turn: Turn) -> None:
        group.begin_generation(turn.now_ms)
        group.newcomers.clear()
        tickets, group.join_tickets = group.join_tickets, {}
        turn.answers += [(ticket, current_generation(group, member_id)) for member_id, ticket in tickets.items()]
        turn.timers += [group.session_timer(member) for member in group.members.values()]
        turn.timers.append(_sync_timer(group, group.rebalance_timeout_ms))

    # Timers.

    def initial_delay_over(self, event: InitialDelayOver, now_ms: int) -> Decision:
        """Wait on while members keep coming, but no longer than the rebalance time-out; else begin."""
        group = self._meeting(event.group_id)
        if group is None:
            return NOTHING
        if not group.has_newcomer_since_delay or event.remaining_ms == 0:
            return self._closed(group, now_ms)
        group.has_newcomer_since_delay = False
        delay_ms = min(self._settings().group_initial_rebalance_delay_ms, event.remaining_ms)
        again = InitialDelayOver(event.group_id, delay_ms, max(event.remaining_ms - delay_ms, 0))
        return Decision(timers=(Timer(_join_key(group), delay_ms, again),))

    def join_expired(self, event: JoinExpired, now_ms: int) -> Decision:
        group = self._meeting(event.group_id)
        return NOTHING if group is None else self._closed(group, now_ms)

    def sync_expired(self, event: SyncExpired, now_ms: int) -> Decision:
        """Members that never asked for their assignment are dropped, and the others meet again."""
        group = self._groups.get(event.group_id)
        if not isinstance(group, ClassicGroup) or group.generation != event.generation or not group.pending_sync:
            return NOTHING
        assert group.state in (State.COMPLETING, State.STABLE)
        turn = Turn(now_ms)
        for member_id in sorted(group.pending_sync):
            turn.dismiss(group, member_id)
        self.call(group, turn)
        return turn.decision()

    def session_expired(self, event: SessionExpired, now_ms: int) -> Decision:
        """A silent member is dropped.  Waiting for the others is no silence, except for one who never was a member."""
        group = self._groups.get(event.group_id)
        member_id = event.member_id
        if not isinstance(group, ClassicGroup) or not (member_id in group.members or member_id in group.pending):
            return NOTHING
        if member_id not in group.newcomers and (member_id in group.join_tickets or member_id in group.sync_tickets):
            return NOTHING
        turn = Turn(now_ms)
        self.dismiss(group, member_id, turn)
        return turn.decision()

    def rebalance_wanted(self, event: RebalanceWanted, now_ms: int) -> Decision:
        """A group that another protocol hands over: its members' sessions begin, and they are called together."""
        group = self._groups.get(event.group_id)
        if not isinstance(group, ClassicGroup):
            return NOTHING
        turn = Turn(now_ms)
        turn.timers += [group.session_timer(member) for member in group.members.values()]
        if group.state in (State.STABLE, State.COMPLETING):
            self.call(group, turn)
        return turn.decision()

    def assignment_refused(self, event: AssignmentRefused, now_ms: int) -> Decision:
        """Nobody has an assignment, as Kafka has it: all who wait for theirs are told, and the group meets again."""
        group = self._groups[event.group_id]
        assert isinstance(group, ClassicGroup)
        turn = Turn(now_ms)
        turn.answers += event.answers
        for member_id, ticket in event.tickets:
            turn.refuse_sync(ticket, event.code)
            turn.timers.append(group.session_timer(group.members[member_id]))
        for member in group.members.values():
            member.assignment = b""
        self.call(group, turn)
        return turn.decision()

    def _meeting(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) and group.state is State.PREPARING else None

    def _closed(self, group: ClassicGroup, now_ms: int) -> Decision:
        turn = Turn(now_ms)
        self.close(group, turn)
        return turn.decision()


def called_off_sync(group: ClassicGroup) -> Timer:
    """Nobody is left to wait for."""
    return _sync_timer(group, None)


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return ("join", group.group_id)


def _join_timer(group: ClassicGroup, at_least_ms: int = 0) -> Timer:
    return Timer(_join_key(group), max(group.rebalance_timeout_ms, at_least_ms), JoinExpired(group.group_id))


def _sync_timer(group: ClassicGroup, after_ms: int | None) -> Timer:
    event = None if after_ms is None else SyncExpired(group.group_id, group.generation)
    return Timer(("sync", group.group_id), after_ms, event)
