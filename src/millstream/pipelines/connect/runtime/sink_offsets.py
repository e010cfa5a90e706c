"""How far sinks are: what their consumer groups have committed, in the words of Connect's REST API."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.client.coordinators import Coordinators
from millstream.client.groups import commit_offsets, committed_offsets, delete_groups, delete_offsets
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.connect.job import Place
from millstream.pipelines.connect.runtime.refusals import bad_request

TOPIC = "kafka_topic"
PARTITION = "kafka_partition"
OFFSET = "kafka_offset"
INT64_MAX = 2**63 - 1
INT32_MAX = 2**31 - 1


class SinkOffsets:
    """The offsets of sinks' groups."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators

    async def of(self, group: str) -> list[Place]:
        """How far a sink is that commits as this group."""
        committed = await committed_offsets(self._coordinators, group)
        return [
            {"partition": {TOPIC: tp.topic, PARTITION: tp.partition}, "offset": {OFFSET: it.offset}}
            for tp, it in committed.items()
        ]

    async def alter(
        self,
        group: str,
        taken: Mapping[TopicPartition, int],
        places: Sequence[Place],
        before: Callable[[], object],
    ) -> None:
        """Commit other offsets, and forget those that are None; ``before`` is called once they are known to be good.

        Partitions that are not named stay where they are: that is, where the sink has ``taken`` them to.
        """
        asked = parsed(places)
        shown = await committed_offsets(self._coordinators, group) if taken else {}
        behind = {tp: it for tp, it in taken.items() if tp not in asked and (tp not in shown or shown[tp].offset != it)}
        if behind:
            await commit_offsets(self._coordinators, group, behind)
        before()
        if given := {tp: offset for tp, offset in asked.items() if offset is not None}:
            await commit_offsets(self._coordinators, group, given)
        if forgotten := [tp for tp, offset in asked.items() if offset is None]:
            for tp, code in (await delete_offsets(self._coordinators, group, forgotten)).items():
                if code:
                    raise ProtocolError(code, f"partition {tp}")

    async def reset(self, group: str) -> None:
        """Forget the group."""
        [outcome] = await delete_groups(self._coordinators, [group])
        if outcome.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            outcome.raise_if_refused()


def parsed(places: Sequence[Place]) -> dict[TopicPartition, int | None]:
    """Places as offsets of topics' partitions; None where one is to be forgotten.  Refused unless they are such."""
    return {_partition(place["partition"]): _offset(place["offset"]) for place in places}


def _partition(partition: Mapping[str, Any] | None) -> TopicPartition:
    if partition is None:
        raise bad_request("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in partition or PARTITION not in partition:
        raise bad_request(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    if partition[TOPIC] is None:
        raise bad_request("Kafka topic names must be valid strings and may not be null")
    number = partition[PARTITION]
    if number is None:
        raise bad_request("Kafka partitions must be valid numbers and may not be null")
    whole = _whole(number, INT32_MAX)
    if whole is None:
        raise bad_request(
            f"Failed to parse the following Kafka partition value in the provided offsets: '{number}'. "
            "Partition values for sink connectors need to be integers."
        )
    return TopicPartition(str(partition[TOPIC]), whole)


def _offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if OFFSET not in offset:
        raise bad_request(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    whole = _whole(offset[OFFSET], INT64_MAX)
    if whole is None:
        raise bad_request(
            f"Failed to parse the following Kafka offset value in the provided offsets: '{offset[OFFSET]}'. "
            "Offset values for sink connectors need to be integers."
        )
    return whole


def _whole(value: Any, most: int) -> int | None:
    """A whole number, as a number or as its text."""
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.removeprefix("-").isdigit():
        return None
    return int(text) if -most <= int(text) <= most else None
