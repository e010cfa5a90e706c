"""What the measuring commands share: their topic, their records, and how a run ends."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from millstream.cli.options import positive

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster, Topic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
#: Words for values, so that a codec has something to find; the same in every run.
_WORDS = b"mill stream wheel water grain stone river flow sluice race flour sack miller dam "


def add_topic_options(parser: argparse.ArgumentParser) -> None:
    """Let the command say which topic is measured, and how it is made if missing."""
    parser.add_argument("topic", nargs="?", default="perf", metavar="TOPIC", help="made if missing (default: perf)")
    parser.add_argument("-p", "--partitions", type=positive, default=1, help="of a topic that is made (default: 1)")
    parser.add_argument("-r", "--replicas", type=positive, default=-1, help="of a topic that is made")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    parser.set_defaults(fast_loop=True)


async def ensure_topic(cluster: Cluster, args: argparse.Namespace) -> Topic:
    """The topic to measure on, made if it is not there; all its leaders are at work."""
    from millstream.client.admin import NewTopic, create_topics
    from millstream.client.partitions import LATEST, list_offsets
    from millstream.model.errors import ErrorCode, ProtocolError
    from millstream.model.ids import TopicPartition

    try:
        return await cluster.topic(args.topic)
    except ProtocolError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    for outcome in await create_topics(cluster, [NewTopic(args.topic, args.partitions, args.replicas)]):
        if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            outcome.raise_if_refused()
    topic = await cluster.topic(args.topic, is_new=True)
    await list_offsets(cluster, {TopicPartition(topic.name, part.index): LATEST for part in topic.partitions})
    return await cluster.topic(args.topic)


def batch_of(count: int, value_bytes: int, codec: str) -> bytearray:
    """A batch of ``count`` records with values of so many bytes, no two the same, stamped with this moment."""
    from millstream.model.compression import CODEC_IDS
    from millstream.model.records import Record, encode_batch

    now_ms = time.time_ns() // 1_000_000
    filler = _WORDS * (value_bytes // len(_WORDS) + 2)
    values = (
        (b"%012d " % number + filler[number % len(_WORDS) : number % len(_WORDS) + value_bytes])[:value_bytes]
        for number in range(count)
    )
    return encode_batch([Record(timestamp=now_ms, value=value) for value in values], compression=CODEC_IDS[codec])


def show_figures(document: dict[str, object], lines: list[str], output: str) -> None:
    """The outcome: a few lines for people, or the whole document."""
    from millstream.cli.output import show_document

    if output == "table":
        print("\n".join(lines))
    else:
        show_document(document, output)
