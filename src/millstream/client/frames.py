"""Requests encoded once and sent many times, for tools that must not be what they measure."""

import struct
from collections.abc import Mapping

from millstream.client.partitions import produce_request, version_by_name_or_id
from millstream.client.wire import Connection
from millstream.model.ids import TopicPartition, Uuid
from millstream.protocol.codec import encode
from millstream.protocol.headers import response_header
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from millstream.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_OFFSET = struct.Struct(">q")
_CODE = struct.Struct(">h")


def first_difference(one: bytes, other: bytes) -> int:
    """Where two encodings part: the place of the field in which their messages differ."""
    return next(at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)


class ProduceFrame:
    """A produce of fixed batches to one partition, and where its answer says how it went."""

    def __init__(
        self,
        connection: Connection,
        tp: TopicPartition,
        topic_id: Uuid,
        records: bytes | bytearray,
        *,
        acks: int,
        timeout_ms: int = 30_000,
    ) -> None:
        self.version = version_by_name_or_id(connection, ProduceRequest, topic_id)
        self.acks = acks
        self.frame = connection.frame_of(produce_request(tp, topic_id, records, acks, timeout_ms), self.version)
        well, badly = (encode(_answer(tp, topic_id, code), self.version) for code in (0, -1))
        head = len(response_header(ProduceRequest.API_KEY, self.version, 0))
        self._code_at = head + first_difference(well, badly)

    def error_code(self, answer: memoryview) -> int:
        """The error code in an answer's frame, read without decoding the rest."""
        code: int = _CODE.unpack_from(answer, self._code_at)[0]
        return code


def _answer(tp: TopicPartition, topic_id: Uuid, code: int) -> ProduceResponse:
    row = PartitionProduceResponse(index=tp.partition, error_code=code, base_offset=0)
    return ProduceResponse(
        responses=[TopicProduceResponse(name=tp.topic, topic_id=topic_id, partition_responses=[row])]
    )


class FetchFrame:
    """A fetch of fixed partitions, of which only the offsets change from one request to the next."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        topic_id: Uuid,
        partitions: list[int],
        *,
        partition_bytes_max: int,
        bytes_max: int,
        bytes_min: int = 1,
        wait_ms: int = 500,
    ) -> None:
        self.version = version_by_name_or_id(connection, FetchRequest, topic_id)

        def encoded(changed: int | None) -> bytes:
            request = FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=bytes_min,
                max_bytes=bytes_max,
                topics=[
                    FetchTopic(
                        topic=topic,
                        topic_id=topic_id,
                        partitions=[
                            FetchPartition(
                                partition=partition,
                                fetch_offset=-1 if partition == changed else 0,
                                partition_max_bytes=partition_bytes_max,
                            )
                            for partition in partitions
                        ],
                    )
                ],
            )
            return encode(request, self.version)

        body = encoded(None)
        whole = connection.frame_of(FetchRequest(), self.version)
        head = len(whole) - len(encode(FetchRequest(), self.version))
        self._frame = bytearray(whole[:head] + body)
        struct.pack_into(">i", self._frame, 0, len(self._frame) - 4)
        self._offset_at = {partition: head + first_difference(body, encoded(partition)) for partition in partitions}

    def at(self, offsets: Mapping[int, int]) -> bytes:
        """The request that reads each partition from its offset."""
        for partition, offset in offsets.items():
            _OFFSET.pack_into(self._frame, self._offset_at[partition], offset)
        return bytes(self._frame)
