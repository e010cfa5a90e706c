"""Kafka's protocol by hand, over a plain socket: bytes that owe nothing to our own codec.

Only what the tests here need, at the oldest versions that carry it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from fastcrc import crc32

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
FIND_COORDINATOR, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 10, 22, 23
FRAME_BYTES_MAX = 64 << 20
BATCH_HEAD = struct.Struct(">qiibIhiqqqhii")


class Closed(Exception):
    """The broker ended the connection."""


class Wire:
    """One connection that sends and receives whole frames."""

    def __init__(self, address: str, timeout_s: float = 10) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._correlation_id = 0

    def send_bytes(self, raw: bytes) -> None:
        self._socket.sendall(raw)

    def send(self, key: int, version: int, body: bytes, *, tags: bytes | None = None) -> int:
        """One request; ``tags`` are the header's own tagged fields, for versions whose header has them."""
        self._correlation_id += 1
        frame = struct.pack(">hhi", key, version, self._correlation_id) + string("by hand") + (tags or b"") + body
        self.send_bytes(struct.pack(">i", len(frame)) + frame)
        return self._correlation_id

    def receive(self) -> tuple[int, Cursor]:
        """The next answer: its correlation id and all that follows it."""
        (length,) = struct.unpack(">i", self._exactly(4))
        assert 4 <= length <= FRAME_BYTES_MAX, f"an answer of {length} bytes"
        answer = Cursor(self._exactly(length))
        return answer.int32(), answer

    def call(self, key: int, version: int, body: bytes, *, tags: bytes | None = None) -> Cursor:
        sent = self.send(key, version, body, tags=tags)
        answered, answer = self.receive()
        assert answered == sent, f"answer {answered} to question {sent}"
        return answer

    def is_closed_by_peer(self) -> bool:
        """Whether the broker ended the connection without a word, as it must on what it cannot answer."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._socket.recv(count - len(parts))
            except ConnectionError as error:
                raise Closed from error
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """Reads an answer from front to back."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def _one(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.raw, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def int8(self) -> int:
        return self._one(">b")

    def int16(self) -> int:
        return self._one(">h")

    def int32(self) -> int:
        return self._one(">i")

    def int64(self) -> int:
        return self._one(">q")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._one(">B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(self, count: int) -> bytes:
        self.at += count
        return self.raw[self.at - count : self.at]

    def string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self.take(length).decode()

    def bytes(self) -> bytes:
        return self.take(max(self.int32(), 0))

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())

    @property
    def left(self) -> int:
        return len(self.raw) - self.at


def string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def compact_string(text: str) -> bytes:
    return varint(len(text.encode()) + 1) + text.encode()


def tagged(**fields: bytes) -> bytes:
    """Tagged fields by number: ``tagged(t7=b"...")``."""
    rows = [varint(int(name[1:])) + varint(len(value)) + value for name, value in fields.items()]
    return varint(len(rows)) + b"".join(rows)


def record_batch(
    values: Sequence[bytes | None],
    *,
    key: bytes | None = b"k",
    timestamp_ms: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    count: int | None = None,
    last_delta: int | None = None,
) -> bytearray:
    """One uncompressed batch of magic 2; ``producer`` is id, epoch and first sequence.

    ``count`` and ``last_delta`` make its header lie.
    """
    rows = bytearray()
    for delta, value in enumerate(values):
        row = b"\x00" + zigzag(0) + zigzag(delta) + _field(key) + _field(value) + zigzag(0)
        rows += zigzag(len(row)) + row
    last = len(values) - 1 if last_delta is None else last_delta
    count = len(values) if count is None else count
    head = (0, 49 + len(rows), -1, 2, 0, attributes, last, timestamp_ms, timestamp_ms, *producer, count)
    batch = bytearray(BATCH_HEAD.pack(*head)) + rows
    struct.pack_into(">I", batch, 17, crc32.iscsi(bytes(batch[21:])))
    return batch


def _field(raw: bytes | None) -> bytes:
    return zigzag(-1) if raw is None else zigzag(len(raw)) + raw


@dataclass(frozen=True)
class Produced:
    code: int
    base_offset: int
    append_time_ms: int


def produce(wire: Wire, topic: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> Produced:
    """Produce v3, answered."""
    wire.send(PRODUCE, 3, produce_body(topic, batch, acks=acks, partition=partition))
    _, answer = wire.receive()
    assert (answer.int32(), answer.string(), answer.int32(), answer.int32()) == (1, topic, 1, partition)
    return Produced(answer.int16(), answer.int64(), answer.int64())


def produce_body(topic: str, batch: bytes, *, acks: int, partition: int = 0) -> bytes:
    head = string(None) + struct.pack(">hii", acks, 10_000, 1) + string(topic)
    return head + struct.pack(">iii", 1, partition, len(batch)) + batch


@dataclass(frozen=True)
class Fetched:
    code: int
    high_watermark: int
    records: bytes


def fetch_body(
    topic: str,
    offset: int,
    *,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 50 << 20,
    partition_bytes_max: int = 1 << 20,
    partitions: Sequence[int] = (0,),
) -> bytes:
    rows = b"".join(struct.pack(">iqi", partition, offset, partition_bytes_max) for partition in partitions)
    head = struct.pack(">iiiibi", -1, wait_ms, bytes_min, bytes_max, 0, 1)
    return head + string(topic) + struct.pack(">i", len(partitions)) + rows


def fetched(answer: Cursor) -> dict[int, Fetched]:
    """The body of a Fetch v4 answer for one topic, by partition."""
    answer.int32()  # throttle time
    found: dict[int, Fetched] = {}
    for _ in range(answer.int32()):
        answer.string()
        for _ in range(answer.int32()):
            partition, code, high_watermark = answer.int32(), answer.int16(), answer.int64()
            answer.int64()  # last stable offset
            for _ in range(max(answer.int32(), 0)):
                answer.take(16)
            found[partition] = Fetched(code, high_watermark, answer.bytes())
    return found


def fetch(wire: Wire, topic: str, offset: int, *, wait_ms: int = 0, partition_bytes_max: int = 1 << 20) -> Fetched:
    """Fetch v4 of partition 0."""
    body = fetch_body(topic, offset, wait_ms=wait_ms, partition_bytes_max=partition_bytes_max)
    return fetched(wire.call(FETCH, 4, body))[0]


@dataclass(frozen=True)
class Batch:
    base_offset: int
    last_offset: int
    codec: int
    is_log_append_time: bool
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    base_sequence: int
    count: int
    leader_epoch: int


def batches(records: bytes) -> list[Batch]:
    """The whole batches at the front of these bytes, each with its CRC checked."""
    found, at = [], 0
    while at + BATCH_HEAD.size <= len(records):
        base, size, epoch, magic, crc, attributes, last, first_ms, max_ms, producer, _, sequence, count = (
            BATCH_HEAD.unpack_from(records, at)
        )
        if at + 12 + size > len(records):
            break
        assert magic == 2 and crc == crc32.iscsi(records[at + 21 : at + 12 + size])
        found.append(
            Batch(
                base,
                base + last,
                attributes & 7,
                bool(attributes & 8),
                first_ms,
                max_ms,
                producer,
                sequence,
                count,
                epoch,
            )
        )
        at += 12 + size
    return found
