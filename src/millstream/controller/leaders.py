"""The state a partition must have, given who is alive: its leader, its in-sync set, and who else may lead.

Pure.  Whoever is in sync leads; then whoever left the in-sync set when nothing more could be committed (KIP-966);
then, where nobody is left that is known to have everything, whoever led last.
"""

from collections.abc import Container, Sequence
from dataclasses import replace

from millstream.controller.context import Context, Partition, StateDecided
from millstream.controller.elections import Elected, eligible_after, initial, offline
from millstream.controller.interface import NO_LEADER, ControllerSettings
from millstream.controller.partition_states import Phase
from millstream.controller.requests import Decision, Lead
from millstream.controller.topics import first_state
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import PartitionState

NOBODY: frozenset[int] = frozenset()


def min_in_sync(context: Context, settings: ControllerSettings, key: TopicPartition, replicas: Sequence[int]) -> int:
    """How many of ``replicas`` must be in sync for anything to be committed: as the topic has it, or all of them.

    Where the topic has nothing of its own its leader goes by its broker's setting.  Brokers may be set differently;
    then the least of them counts, for to take somebody for eligible who is not would lose records.
    """
    least = settings.min_in_sync(key.topic)
    if least is None:
        told = settings.min_in_sync_told()
        defaults = [broker.registration.min_in_sync for broker in context.brokers.values()]
        least = min([*defaults, *([] if told is None else [told])], default=1)
    return min(least, len(replicas))


def settle(
    context: Context,
    key: TopicPartition,
    partition: Partition,
    settings: ControllerSettings,
    decision: Decision,
    unclean: Container[int] = NOBODY,
) -> None:
    """Give the partition the leader and the in-sync set that the live brokers allow; nothing if it has them.

    Brokers that came back ``unclean`` may have lost records that they had: nobody counts on them any more.
    """
    live, state = context.live_replicas(key, partition), partition.state
    if state is None:
        first = initial(partition.replicas, live)
        if first is not None:
            decision.changes.append(first_state(context, key, first.leader, first.isr))
            decision.leads.append(Lead(key, live, is_new=True))
            decision.announced.append(key)
        return
    isr = tuple(replica for replica in state.isr if replica not in unclean)
    if partition.phase is Phase.ONLINE and state.leader in live:
        isr = tuple(replica for replica in isr if replica in live)
        if isr != state.isr:
            decide(context, key, partition, settings, Elected(state.leader, isr), live, decision, unclean)
            return
        eligible = eligible_after(state.eligible, isr, min_in_sync(context, settings, key, partition.replicas), unclean)
        if eligible != state.eligible:
            correct_eligible(context, key, state, eligible, live, decision)
        return
    # Whatever the settings are by now: no leader commits anything before those eligible are struck at its request.
    eligible = eligible_after(state.eligible, isr, None, unclean)
    last_known = state.last_known if state.leader == NO_LEADER else state.leader
    elected = offline(partition.replicas, isr, live, eligible=eligible, last_known=last_known)
    if elected is None and live and settings.unclean_allowed(key.topic):
        elected = offline(partition.replicas, isr, live, is_unclean_allowed=True)
    if elected is None and (state.leader, state.isr, state.eligible) != (NO_LEADER, isr, eligible):
        # Whoever of them comes back first has all that was committed, so the in-sync set stays.
        elected = Elected(NO_LEADER, isr)
    if elected is not None:
        decide(context, key, partition, settings, elected, live, decision, unclean)


def decide(
    context: Context,
    key: TopicPartition,
    partition: Partition,
    settings: ControllerSettings,
    elected: Elected,
    told: tuple[int, ...],
    decision: Decision,
    unclean: Container[int] = NOBODY,
    replicas: Sequence[int] | None = None,
) -> None:
    """Write a new state, one leader epoch further, and tell those brokers and everyone.

    ``replicas`` are those that the partition has from now on, where it is moved.
    """
    before = partition.state
    assert before is not None
    replicas = partition.replicas if replicas is None else replicas
    is_nobody = elected.leader == NO_LEADER
    lasting = [replica for replica in dict.fromkeys((*before.isr, *before.eligible)) if replica in replicas]
    least = None if is_nobody else min_in_sync(context, settings, key, replicas)
    state = PartitionState(
        elected.leader,
        before.leader_epoch + 1,
        elected.isr,
        context.epoch,
        is_recovering=elected.is_unclean or (before.is_recovering and elected.leader in (NO_LEADER, before.leader)),
        eligible=() if elected.is_unclean else eligible_after(lasting, elected.isr, least, unclean),
        last_known=NO_LEADER if not is_nobody else before.last_known if before.leader == NO_LEADER else before.leader,
    )
    decision.changes.append(StateDecided(key, state))
    newcomers = tuple(replica for replica in replicas if replica not in partition.replicas)
    decision.leads.append(Lead(key, told, newcomers=newcomers))
    decision.announced.append(key)


def correct_eligible(
    context: Context,
    key: TopicPartition,
    before: PartitionState,
    eligible: tuple[int, ...],
    told: tuple[int, ...],
    decision: Decision,
) -> None:
    """Write who is eligible; nothing changes for the leader but the version that it must name."""
    decision.changes.append(StateDecided(key, replace(before, eligible=eligible, controller_epoch=context.epoch)))
    decision.leads.append(Lead(key, told))
    decision.announced.append(key)
