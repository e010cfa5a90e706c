"""The least work a Python broker can do: a denominator for benchmarks, not a design.

It answers ApiVersions, Metadata, Produce, Fetch and ListOffsets for any topic with PARTITIONS partitions, or as many
as it was created with, checks each batch's CRC, stamps its offset and writes it to a file.  Transactions are answered
and not kept: what a client does in them is then as fast as it can be.  No recovery, replication, groups, limits or
errors.  Measure the real broker and this one with the same client in the same run and report the ratio.

    python -m bench.ceiling PORT [PARTITIONS] [DIRECTORY]        # needs fastcrc; uses uvloop where installed
"""

import asyncio
import bisect
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import cast

from fastcrc import crc32

PORT = int(sys.argv[1]) if __name__ == "__main__" else 0
PARTITIONS = int(sys.argv[2]) if len(sys.argv) > 2 and __name__ == "__main__" else 1
DIRECTORY = sys.argv[3] if len(sys.argv) > 3 and __name__ == "__main__" else tempfile.gettempdir()
HOST = b"127.0.0.1"
INT16, INT32, INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
HEADER = struct.Struct(">hhi")
BATCH = struct.Struct(">qiibIhi")  # up to last_offset_delta
SUPPORTED = (
    (0, 3, 7),
    (1, 4, 11),
    (2, 1, 2),
    (3, 1, 4),
    (18, 0, 0),
    (19, 2, 2),
    (10, 1, 1),
    (22, 0, 0),
    (24, 0, 0),
    (26, 0, 0),
)
PRODUCER_ID = 1_000
SMALL_FRAME = 32_768


def text(value: bytes) -> bytes:
    return INT16.pack(len(value)) + value


class Reader:
    """A cursor over one request."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, kind: struct.Struct) -> int:
        value: int = kind.unpack_from(self.data, self.at)[0]
        self.at += kind.size
        return value

    def string(self) -> bytes:
        length = max(self.take(INT16), 0)
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def skip(self, count: int) -> None:
        self.at += count

    def each(self) -> range:
        return range(max(self.take(INT32), 0))


class Log:
    def __init__(self, topic: bytes, index: int) -> None:
        path = os.path.join(DIRECTORY, f"{topic.decode()}-{index}.log")
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self.next_offset, self.size = 0, 0
        self.offsets: list[int] = []
        self.positions: list[int] = []
        self.waiters: list[asyncio.Future[None]] = []

    def append(self, records: memoryview) -> int:
        base, at = self.next_offset, 0
        while at < len(records):
            _, length, _, _, crc, _, last_delta = BATCH.unpack_from(records, at)
            if crc32.iscsi(records[at + 21 : at + 12 + length]) != crc:
                raise ValueError("corrupt batch")
            INT64.pack_into(records, at, self.next_offset)
            self.offsets.append(self.next_offset)
            self.positions.append(self.size + at)
            self.next_offset += last_delta + 1
            at += 12 + length
        os.write(self.file, records)
        self.size += len(records)
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        return base

    def read(self, offset: int, bytes_max: int) -> bytes:
        if offset >= self.next_offset:
            return b""
        first = bisect.bisect_right(self.offsets, offset) - 1
        start = self.positions[first]
        end = min(self.size, start + max(bytes_max, 1))
        if end < self.size:
            last = max(bisect.bisect_right(self.positions, end) - 1, first + 1)
            end = self.positions[last] if last < len(self.positions) else self.size
        return os.pread(self.file, end - start, start)


LOGS: dict[tuple[bytes, int], Log] = {}
#: Of topics that were created.
COUNTS: dict[bytes, int] = {}


def log(topic: bytes, index: int) -> Log:
    key = (topic, index)
    if key not in LOGS:
        LOGS[key] = Log(topic, index)
    return LOGS[key]


class Connection(asyncio.BufferedProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        transport = self.transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.small = bytearray(2 * SMALL_FRAME)
        self.small_view, self.filled = memoryview(self.small), 0
        self.large: memoryview | None = None
        self.large_filled = 0
        self.queue: list[memoryview] = []
        self.waiting = False

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.small_view[self.filled :] if self.large is None else self.large[self.large_filled :]

    def buffer_updated(self, count: int) -> None:
        if self.large is not None:
            self.large_filled += count
            if self.large_filled == len(self.large):
                frame, self.large = self.large, None
                self.frame(frame)
            return
        self.filled += count
        at = 0
        while self.filled - at >= 4:
            length = INT32.unpack_from(self.small, at)[0]
            have = self.filled - at - 4
            if have >= length:
                self.frame(memoryview(bytearray(self.small_view[at + 4 : at + 4 + length])))
                at += 4 + length
            elif length > SMALL_FRAME:
                self.large = memoryview(bytearray(length))
                self.large[:have] = self.small_view[at + 4 : self.filled]
                self.large_filled, self.filled = have, 0
                return
            else:
                break
        rest = bytes(self.small_view[at : self.filled])
        self.small_view[: len(rest)] = rest
        self.filled = len(rest)

    def frame(self, frame: memoryview) -> None:
        if self.waiting:
            self.queue.append(frame)
        else:
            self.answer(frame)

    def answer(self, frame: memoryview) -> None:
        key, version, correlation = HEADER.unpack_from(frame, 0)
        reader = Reader(frame)
        reader.skip(8)
        reader.string()
        handler = {
            0: self.produce,
            1: self.fetch,
            2: self.list_offsets,
            3: self.metadata,
            10: self.find_coordinator,
            18: self.versions,
            19: self.create_topics,
            22: self.init_producer_id,
            24: self.add_partitions,
            26: self.end_transaction,
        }[key]
        handler(reader, version, correlation)

    def send(self, correlation: int, parts: list[bytes]) -> None:
        size = 4 + sum(map(len, parts))
        self.transport.writelines([INT32.pack(size) + INT32.pack(correlation), *parts])

    def versions(self, reader: Reader, version: int, correlation: int) -> None:
        rows = b"".join(struct.pack(">hhh", *row) for row in SUPPORTED)
        self.send(correlation, [INT16.pack(0 if version == 0 else 35) + INT32.pack(len(SUPPORTED)) + rows])

    def metadata(self, reader: Reader, version: int, correlation: int) -> None:
        topics = [reader.string() for _ in reader.each()]
        out = [
            INT32.pack(0) if version >= 3 else b"",
            INT32.pack(1) + INT32.pack(1) + text(HOST) + INT32.pack(PORT) + INT16.pack(-1),
        ]
        if version >= 2:
            out.append(text(b"ceiling"))
        out.append(INT32.pack(1) + INT32.pack(len(topics)))
        for topic in topics:
            count = COUNTS.get(topic, PARTITIONS)
            out.append(INT16.pack(0) + text(topic) + b"\0" + INT32.pack(count))
            out += [INT16.pack(0) + struct.pack(">iiiiii", index, 1, 1, 1, 1, 1) for index in range(count)]
        self.send(correlation, out)

    def create_topics(self, reader: Reader, version: int, correlation: int) -> None:
        """One topic at a time, as the loads create them; places and settings are not read."""
        reader.skip(4)
        topic = reader.string()
        COUNTS[topic] = reader.take(INT32)
        self.send(correlation, [struct.pack(">ii", 0, 1) + text(topic) + struct.pack(">hh", 0, -1)])

    def find_coordinator(self, reader: Reader, version: int, correlation: int) -> None:
        self.send(correlation, [struct.pack(">ihhi", 0, 0, -1, 1) + text(HOST) + INT32.pack(PORT)])

    def init_producer_id(self, reader: Reader, version: int, correlation: int) -> None:
        self.send(correlation, [struct.pack(">ihqh", 0, 0, PRODUCER_ID, 0)])

    def add_partitions(self, reader: Reader, version: int, correlation: int) -> None:
        reader.string()
        reader.skip(10)
        topics = reader.each()
        out = [INT32.pack(0) + INT32.pack(len(topics))]
        for _ in topics:
            topic, rows = reader.string(), reader.each()
            out.append(text(topic) + INT32.pack(len(rows)))
            out += [INT32.pack(reader.take(INT32)) + INT16.pack(0) for _ in rows]
        self.send(correlation, out)

    def end_transaction(self, reader: Reader, version: int, correlation: int) -> None:
        self.send(correlation, [INT32.pack(0) + INT16.pack(0)])

    def list_offsets(self, reader: Reader, version: int, correlation: int) -> None:
        reader.skip(5 if version >= 2 else 4)
        topics = reader.each()
        out = [INT32.pack(0) if version >= 2 else b"", INT32.pack(len(topics))]
        for _ in topics:
            topic, rows = reader.string(), reader.each()
            out.append(text(topic) + INT32.pack(len(rows)))
            for _ in rows:
                index, timestamp = reader.take(INT32), reader.take(INT64)
                offset = 0 if timestamp == -2 else log(topic, index).next_offset
                out.append(INT32.pack(index) + INT16.pack(0) + INT64.pack(-1) + INT64.pack(offset))
        self.send(correlation, out)

    def produce(self, reader: Reader, version: int, correlation: int) -> None:
        reader.string()
        acks = reader.take(INT16)
        reader.skip(4)
        topics = reader.each()
        out = [INT32.pack(len(topics))]
        for _ in topics:
            topic, rows = reader.string(), reader.each()
            out.append(text(topic) + INT32.pack(len(rows)))
            for _ in rows:
                index, length = reader.take(INT32), reader.take(INT32)
                base = log(topic, index).append(reader.data[reader.at : reader.at + length])
                reader.skip(length)
                out.append(struct.pack(">ihqq", index, 0, base, -1) + (INT64.pack(0) if version >= 5 else b""))
        if acks:
            self.send(correlation, [*out, INT32.pack(0)])

    def fetch(self, reader: Reader, version: int, correlation: int, may_wait: bool = True) -> None:
        start = reader.at
        _, wait_ms, bytes_min, bytes_max = struct.unpack_from(">iiii", reader.data, reader.at)
        reader.skip(17 + (8 if version >= 7 else 0))
        topics = reader.each()
        out: list[bytes] = []
        watched: list[Log] = []
        total = 0
        for _ in topics:
            topic, rows = reader.string(), reader.each()
            out.append(text(topic) + INT32.pack(len(rows)))
            for _ in rows:
                index = reader.take(INT32)
                reader.skip(4 if version >= 9 else 0)
                offset = reader.take(INT64)
                reader.skip(8 if version >= 5 else 0)
                partition = log(topic, index)
                limit = min(reader.take(INT32), bytes_max - total)
                records = partition.read(offset, limit) if limit > 0 else b""
                total += len(records)
                watched.append(partition)
                end = partition.next_offset
                out.append(
                    struct.pack(">ihqq", index, 0, end, end)
                    + (INT64.pack(0) if version >= 5 else b"")
                    + INT32.pack(-1)
                    + (INT32.pack(-1) if version >= 11 else b"")
                    + INT32.pack(len(records))
                )
                out.append(records)
        if total < bytes_min and wait_ms > 0 and may_wait:
            reader.at = start
            self.wait(watched, wait_ms, lambda: self.fetch(reader, version, correlation, may_wait=False))
            return
        head = INT32.pack(0) + (INT16.pack(0) + INT32.pack(0) if version >= 7 else b"") + INT32.pack(len(topics))
        self.send(correlation, [head, *out])

    def wait(self, watched: list[Log], wait_ms: int, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def expire() -> None:
            if not future.done():
                future.set_result(None)

        timer = loop.call_later(wait_ms / 1000, expire)
        for partition in watched:
            partition.waiters.append(future)
        self.waiting = True

        def resume(_: asyncio.Future[None]) -> None:
            timer.cancel()
            self.waiting = False
            if self.transport.is_closing():
                return
            then()
            while self.queue and not self.waiting:
                self.answer(self.queue.pop(0))

        future.add_done_callback(resume)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, HOST.decode(), PORT)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main())
    except ImportError:
        asyncio.run(main())
