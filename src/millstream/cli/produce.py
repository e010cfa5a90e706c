r"""Write records to a topic, one for each line of standard input or of files.

echo hello | millstream produce orders
millstream produce orders -K : -z zstd < pairs.txt    # lines are key:value
millstream produce orders -H source=import rows.json
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, not_negative

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.client.writer import Writer
    from millstream.model.records import Record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
READ_BYTES = 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("files", nargs="*", metavar="FILE", help="read these; - is standard input (default: -)")
    parser.add_argument("-k", "--key", help="give every record this key")
    parser.add_argument("-K", "--key-delimiter", metavar="TEXT", help="each line is a key, this, and a value")
    parser.add_argument("-D", "--delimiter", default=r"\n", metavar="TEXT", help=r"what ends a record (default: \n)")
    parser.add_argument("-H", "--header", dest="headers", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("-z", "--compression", choices=CODECS, default="none", help="default: none")
    parser.add_argument("-p", "--partition", type=not_negative, metavar="N", help="default: by key, or in turns")
    parser.add_argument("-a", "--acks", choices=sorted(ACKS), default="all", help="who must have it (default: all)")
    parser.add_argument("--key-format", choices=("text", "hex", "base64"), default="text")
    parser.add_argument("--value-format", choices=("text", "hex", "base64"), default="text")
    parser.add_argument("-Z", "--empty-is-null", action="store_true", help="empty keys and values are null: tombstones")
    parser.add_argument("-T", "--timestamp", metavar="TIME", help="stamp records with this time instead of now")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing when all went well")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    import random

    from millstream.cli.failure import CommandFailed
    from millstream.cli.formats import unescape
    from millstream.cli.progress import Progress
    from millstream.client.writer import Writer
    from millstream.model.compression import CODEC_IDS

    to_record = record_maker(args)
    topic = await cluster.topic(args.topic, may_create=True)
    count = len(topic.partitions)
    if args.partition is not None and args.partition >= count:
        raise CommandFailed(f"topic {args.topic!r} has {count} partitions, none numbered {args.partition}")
    writer = Writer(
        cluster,
        args.topic,
        count,
        acks=ACKS[args.acks],
        compression=CODEC_IDS[args.compression],
        first=random.randrange(count),
    )
    progress = Progress(quiet=args.quiet)
    if not args.files and sys.stdin.isatty() and not args.quiet:
        print("each line is a record; Ctrl-D ends", file=sys.stderr)

    async for lines in read_records(args.files or ["-"], unescape(args.delimiter)):
        for line in lines:
            await writer.add(to_record(line), args.partition)
        await writer.flush()
        progress.tell(lambda passed_s: f"{writer.records:,} records, {writer.size_bytes / 1e6:,.1f} MB")
    progress.done()
    if not args.quiet:
        _report(writer, args)
    return 0


def record_maker(args: argparse.Namespace) -> Callable[[bytes], Record]:
    """How a line becomes a record, as the options say."""
    from millstream.cli.failure import CommandFailed
    from millstream.cli.formats import unescape
    from millstream.model.records import Record

    decode_key, decode_value = _decoder(args.key_format, "key"), _decoder(args.value_format, "value")
    separator = unescape(args.key_delimiter) if args.key_delimiter is not None else None
    if separator is not None and args.key is not None:
        raise CommandFailed("a key is given twice; use either -k or -K", exit_code=2)
    fixed_key = None if args.key is None else decode_key(os.fsencode(args.key))
    headers = tuple(_header(text) for text in args.headers)
    stamp = _stamper(args.timestamp)

    def make(line: bytes) -> Record:
        key = fixed_key
        if separator is not None:
            head, found, tail = line.partition(separator)
            if not found:
                raise CommandFailed(f"no key delimiter {args.key_delimiter!r} in the line {line[:60]!r}")
            key, line = decode_key(head), tail
        value: bytes | None = decode_value(line)
        if args.empty_is_null:
            key, value = key or None, value or None
        return Record(timestamp=stamp(), key=key, value=value, headers=headers)

    return make


def _stamper(text: str | None) -> Callable[[], int]:
    now_ms = time.time_ns() // 1_000_000
    if text is None:
        return lambda: time.time_ns() // 1_000_000
    from millstream.cli.failure import CommandFailed
    from millstream.cli.times import parse_moment_ms

    try:
        moment_ms = parse_moment_ms(text, now_ms)
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=2) from None
    return lambda: moment_ms


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    return name, os.fsencode(value) if equals else None


def _decoder(name: str, what: str) -> Callable[[bytes], bytes]:
    from millstream.cli.failure import CommandFailed

    if name == "text":
        return lambda data: data

    def decode(data: bytes) -> bytes:
        import base64
        import binascii

        try:
            return bytes.fromhex(data.decode()) if name == "hex" else base64.b64decode(data, validate=True)
        except (ValueError, binascii.Error):
            raise CommandFailed(f"the {what} {data[:60]!r} is not {name}") from None

    return decode


async def read_records(files: list[str], delimiter: bytes) -> AsyncIterator[list[bytes]]:
    """The records of the files one after the other, in lists of as many as could be read at once."""
    for name in files:
        if name == "-":
            async for records in _split(sys.stdin.fileno(), delimiter):
                yield records
            continue
        fd = os.open(name, os.O_RDONLY)
        try:
            async for records in _split(fd, delimiter):
                yield records
        finally:
            os.close(fd)


async def _split(fd: int, delimiter: bytes) -> AsyncIterator[list[bytes]]:
    rest = b""
    async for chunk in _chunks(fd):
        records = (rest + chunk).split(delimiter) if delimiter else [rest + chunk]
        rest = records.pop()
        if records:
            yield records
    if rest:
        yield [rest]


async def _chunks(fd: int) -> AsyncIterator[bytes]:
    """What a descriptor gives until its end, without a thread: a terminal or pipe is waited for by the loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(fd, readable.set)
    except PermissionError:  # A regular file, which is always readable.
        while chunk := os.read(fd, READ_BYTES):
            yield chunk
        return
    try:
        while True:
            await readable.wait()
            readable.clear()
            chunk = os.read(fd, READ_BYTES)
            if not chunk:
                return
            yield chunk
    finally:
        loop.remove_reader(fd)


def _report(writer: Writer, args: argparse.Namespace) -> None:
    from millstream.cli.output import show_document, table

    rows = [
        {"partition": partition, "records": written.records, "first_offset": first, "last_offset": last}
        for partition, written in sorted(writer.written.items())
        for first, last in [(written.first_offset, written.last_offset)]
    ]
    if args.output != "table":
        show_document(rows, args.output)
    elif rows:
        print(table([{key: None if cell == -1 else cell for key, cell in row.items()} for row in rows]))
