"""The raw client: frames encoded before the clock starts, on a blocking socket.

It speaks the one version of each API that the ceiling, the broker and Apache Kafka have in common, and knows no
more of the protocol than the loads need, so that a measurement is of the server and not of the tool.
"""

import socket
import struct
import time
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

CLIENT_ID = b"bench"
PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, ALTER_CONFIGS = 0, 1, 2, 3, 18, 19, 33
VERSIONS = {PRODUCE: 7, FETCH: 11, LIST_OFFSETS: 1, METADATA: 4, API_VERSIONS: 0, CREATE_TOPICS: 2, ALTER_CONFIGS: 0}
EARLIEST, LATEST = -2, -1

_HEADER = struct.Struct(">hhih")
_BATCH = struct.Struct(">qiibIhiqqqhii")
_CRC_AT, _ATTRIBUTES_AT = 17, 21
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
#: A produce answer for one partition: array, name, array, then this row and the throttle time.
_PRODUCE_ROW = struct.Struct(">ihqqq")


class Refused(Exception):
    """The server answered a benchmark's request with an error code."""


class Batch(NamedTuple):
    """Where one batch of a fetch answer ends in the log."""

    base_offset: int
    next_offset: int


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _record(delta: int, key: bytes | None, value: bytes) -> bytes:
    shown_key = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\0" + _varint(0) + _varint(delta) + shown_key + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def encode_batch(values: list[bytes], keys: list[bytes] | None = None) -> bytes:
    """An uncompressed batch of these values, stamped with the present time."""
    records = b"".join(_record(at, keys[at] if keys else None, value) for at, value in enumerate(values))
    now_ms, count = time.time_ns() // 1_000_000, len(values)
    length = _BATCH.size - 12 + len(records)
    head = _BATCH.pack(0, length, -1, 2, 0, 0, count - 1, now_ms, now_ms, -1, -1, -1, count)
    batch = bytearray(head + records)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return bytes(batch)


def text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return _INT16.pack(len(encoded)) + encoded


def frame(key: int, body: bytes, correlation: int = 0) -> bytes:
    header = _HEADER.pack(key, VERSIONS[key], correlation, len(CLIENT_ID)) + CLIENT_ID
    return _INT32.pack(len(header) + len(body)) + header + body


def produce_frame(topic: str, batch: bytes, acks: int = 1, partition: int = 0, correlation: int = 0) -> bytes:
    row = struct.pack(">ii", partition, len(batch)) + batch
    return frame(
        PRODUCE, text(None) + struct.pack(">hii", acks, 30_000, 1) + text(topic) + _INT32.pack(1) + row, correlation
    )


def fetch_frame(
    topic: str, offset: int, *, wait_ms: int, bytes_max: int, bytes_min: int = 1, partition: int = 0
) -> bytes:
    """One partition from ``offset`` on, outside any fetch session."""
    head = struct.pack(">iiiibiii", -1, wait_ms, bytes_min, bytes_max, 0, 0, -1, 1)
    row = struct.pack(">iiiqqi", 1, partition, -1, offset, -1, bytes_max)
    return frame(FETCH, head + text(topic) + row + _INT32.pack(0) + text(""))


def produce_answer_bytes(topic: str) -> int:
    """The size of a produce answer for one partition, length prefix included: always the same for one topic."""
    return 4 + 4 + 4 + len(text(topic)) + 4 + _PRODUCE_ROW.size + 4


def produced_offset(answer: bytes | memoryview, topic: str, at: int = 0) -> int:
    """The base offset in a produce answer that starts (length prefix and all) at ``at``."""
    _, error, base_offset, _, _ = _PRODUCE_ROW.unpack_from(answer, at + 12 + len(text(topic)) + 4)
    if error:
        raise Refused(f"produce to {topic}: error {error}")
    return int(base_offset)


class ProduceAnswers:
    """The answers to produce requests for one topic, in whatever pieces they come."""

    def __init__(self, connection: "Connection", topic: str) -> None:
        self._socket = connection.socket
        self._topic = topic
        self._each_bytes = produce_answer_bytes(topic)
        self._buffer = memoryview(bytearray(1 << 18))
        self._filled = 0

    def receive(self) -> int:
        """Wait for more; how many became whole, each of a batch that was taken: Refused otherwise."""
        count = self._socket.recv_into(self._buffer[self._filled :])
        if not count:
            raise SystemExit("the server closed the connection")
        whole, rest = divmod(self._filled + count, self._each_bytes)
        end = whole * self._each_bytes
        for at in range(0, end, self._each_bytes):
            produced_offset(self._buffer, self._topic, at)
        self._buffer[:rest] = bytes(self._buffer[end : end + rest])
        self._filled = rest
        return whole


def check_produced(answer: memoryview, topic: str) -> None:
    """Raise unless a produce answer (without its length prefix) says that the batch was taken."""
    produced_offset(answer, topic, -4)


def fetched(answer: memoryview, topic: str) -> memoryview:
    """The record bytes of a fetch answer (without its length prefix) for one partition."""
    at = 4 + 4 + 2 + 4 + 4 + len(text(topic)) + 4
    _, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
    if error:
        raise Refused(f"fetch from {topic}: error {error}")
    at += 34 + 16 * max(aborted, 0) + 4
    (length,) = _INT32.unpack_from(answer, at)
    return answer[at + 4 : at + 4 + max(length, 0)]


def batches(records: memoryview) -> list[Batch]:
    """The whole batches of a fetch answer."""
    found, at = [], 0
    while len(records) - at >= _BATCH.size:
        base_offset, length, _, _, _, _, last_delta = struct.unpack_from(">qiibIhi", records, at)
        if at + 12 + length > len(records):
            break
        found.append(Batch(base_offset, base_offset + last_delta + 1))
        at += 12 + length
    return found


class Connection:
    """One blocking connection; requests are answered in the order they were sent."""

    def __init__(self, server: str, timeout_s: float = 60.0) -> None:
        host, _, port = server.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 16)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes | memoryview) -> None:
        self.socket.sendall(data)

    def receive(self) -> memoryview:
        """The next answer without its length prefix; valid until the next one is received."""
        self._fill(4, 0)
        (length,) = _INT32.unpack_from(self._buffer)
        if length > len(self._buffer):
            self._buffer = bytearray(length)
        self._fill(length, 0)
        return memoryview(self._buffer)[:length]

    def ask(self, data: bytes | memoryview) -> memoryview:
        self.send(data)
        return self.receive()

    def _fill(self, count: int, at: int) -> None:
        view = memoryview(self._buffer)
        while at < count:
            got = self.socket.recv_into(view[at:count])
            if not got:
                raise ConnectionError("the server closed the connection")
            at += got

    def leader_of(self, topic: str) -> int:
        """The leader of partition 0, the topic being created where the server does that; -1 while there is none."""
        answer = self.ask(frame(METADATA, _INT32.pack(1) + text(topic) + b"\1"))
        at = 8 + 4  # correlation, throttle time, brokers
        for _ in range(_INT32.unpack_from(answer, 8)[0]):
            at += 4
            at += 2 + _INT16.unpack_from(answer, at)[0] + 4
            at += 2 + max(_INT16.unpack_from(answer, at)[0], 0)
        at += 2 + max(_INT16.unpack_from(answer, at)[0], 0) + 4 + 4  # cluster id, controller, topics
        (error,) = _INT16.unpack_from(answer, at)
        at += 2 + 2 + _INT16.unpack_from(answer, at + 2)[0] + 1
        (partitions,) = _INT32.unpack_from(answer, at)
        if error or not partitions:
            return -1
        return int(_INT32.unpack_from(answer, at + 4 + 2 + 4)[0])

    def await_topic(self, topic: str, timeout_s: float = 30.0) -> None:
        """Return once the topic can be written and read."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.leader_of(topic) >= 0:
                try:
                    self.offset(topic, LATEST)
                except Refused:
                    pass
                else:
                    return
            time.sleep(0.01)
        raise TimeoutError(f"{topic} has no leader after {timeout_s} s")

    def api_keys(self) -> set[int]:
        """The APIs the server says it serves."""
        answer = self.ask(frame(API_VERSIONS, b""))
        (count,) = _INT32.unpack_from(answer, 6)
        return {_INT16.unpack_from(answer, 10 + 6 * at)[0] for at in range(count)}

    def offset(self, topic: str, timestamp: int) -> int:
        """The earliest or latest offset of partition 0."""
        body = struct.pack(">ii", -1, 1) + text(topic) + struct.pack(">iiq", 1, 0, timestamp)
        answer = self.ask(frame(LIST_OFFSETS, body))
        error, _, offset = struct.unpack_from(">hqq", answer, 4 + 4 + len(text(topic)) + 4 + 4)
        if error:
            raise Refused(f"offsets of {topic}: error {error}")
        return int(offset)

    def await_offset(self, topic: str, expected: int, timeout_s: float = 60.0) -> int:
        """The latest offset of partition 0 once it is at least this much, or time is up."""
        deadline = time.monotonic() + timeout_s
        while (found := self.offset(topic, LATEST)) < expected and time.monotonic() < deadline:
            time.sleep(0.005)
        return found

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Create a topic; one that is there already is left as it is."""
        pairs = (configs or {}).items()
        body = _INT32.pack(1) + text(topic) + struct.pack(">ihi", partitions, 1, 0)
        body += _INT32.pack(len(pairs)) + b"".join(text(name) + text(value) for name, value in pairs)
        answer = self.ask(frame(CREATE_TOPICS, body + struct.pack(">ib", 60_000, 0)))
        (error,) = _INT16.unpack_from(answer, 4 + 4 + 4 + len(text(topic)))
        if error not in (0, 36):
            raise Refused(f"creation of {topic}: error {error}")

    def alter_topic(self, topic: str, configs: dict[str, str]) -> None:
        """Replace a topic's settings by these."""
        body = _INT32.pack(1) + b"\2" + text(topic) + _INT32.pack(len(configs))
        body += b"".join(text(name) + text(value) for name, value in configs.items()) + b"\0"
        answer = self.ask(frame(ALTER_CONFIGS, body))
        (error,) = _INT16.unpack_from(answer, 4 + 4 + 4)
        if error:
            raise Refused(f"settings of {topic}: error {error}")
