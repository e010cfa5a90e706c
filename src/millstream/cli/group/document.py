"""A group as it is shown: what its members have, how far each partition is read, how far that is behind."""

import time

from millstream.client.coordinators import Coordinators
from millstream.client.groups import Committed, Group, Member, committed_offsets, describe_group
from millstream.client.lag import Lag, Span, lags_of, spans_of
from millstream.model.ids import TopicPartition

Row = dict[str, object]


async def describe(coordinators: Coordinators, name: str, *, offsets: bool = True) -> Row:
    """The whole group; without its partitions' offsets and lag when they are not wanted."""
    group = await describe_group(coordinators, name)
    document = _group(group)
    if not offsets:
        return document
    committed = await committed_offsets(coordinators, name)
    owners = {tp: member for member in group.members for tp in member.partitions}
    partitions = sorted({*committed, *owners})
    spans = await spans_of(coordinators.cluster, partitions)
    positions = {tp: place.offset for tp, place in committed.items()}
    lags = await lags_of(coordinators.cluster, positions, spans, time.time_ns() // 1_000_000)
    rows = [_partition(tp, committed.get(tp), spans.get(tp), lags.get(tp), owners.get(tp)) for tp in partitions]
    document["lag"] = sum(lag.records for lag in lags.values())
    document["lag_seconds"] = max(
        (round(lag.age_ms / 1000, 1) for lag in lags.values() if lag.age_ms is not None), default=None
    )
    unread = [spans[tp] for tp in partitions if tp not in committed and tp in spans]
    document["never_committed"] = {
        "partitions": len(unread),
        "records": sum(span.end - span.start for span in unread),
    }
    document["partitions"] = rows
    return document


def _group(group: Group) -> Row:
    return {
        "name": group.name,
        "protocol": group.protocol,
        "protocol_type": group.protocol_type,
        "state": group.state,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "coordinator": {"id": group.coordinator.id, "address": str(group.coordinator.address)},
        "members": [_member(member) for member in sorted(group.members, key=lambda each: (each.client_id, each.id))],
    }


def _member(member: Member) -> Row:
    return {
        "member": member.id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "protocol": member.protocol,
        "epoch": member.epoch,
        "topics": member.topics,
        "regex": member.regex or None,
        "partitions": [str(tp) for tp in member.partitions],
        "target": None if member.target is None else [str(tp) for tp in member.target],
    }


def _partition(
    tp: TopicPartition, committed: Committed | None, span: Span | None, lag: Lag | None, owner: Member | None
) -> Row:
    """What is not known is None: an offset never committed, the end of a topic that is gone."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "current_offset": committed.offset if committed else None,
        "start_offset": span.start if span else None,
        "end_offset": span.end if span else None,
        "lag": lag.records if lag else None,
        "lag_seconds": None if lag is None or lag.age_ms is None else round(lag.age_ms / 1000, 1),
        "member": owner.id if owner else None,
        "instance": owner.instance_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
        "metadata": (committed.metadata or None) if committed else None,
    }
