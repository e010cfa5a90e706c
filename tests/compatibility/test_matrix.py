"""What each client writes, with each codec, each other client reads."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.compatibility.conftest import Drivers, NewTopic
from tests.compatibility.connections import batches_of
from tests.compatibility.drivers import DRIVERS
from tests.compatibility.drivers.base import CODECS, EARLIEST, Record

EACH = 5


def written(writer: str, codec: str) -> list[Record]:
    """Alike within a run, for kcat gives the same headers to all the records of a process."""
    headers = (("writer", writer.encode()), ("codec", codec.encode()))
    rows = [Record(f"{writer} {codec} {i} ".encode() * 30, key=b"k%d" % i, headers=headers) for i in range(EACH - 2)]
    return [*rows, Record(None, key=b"gone", headers=headers), Record("é ü 漢字".encode(), headers=headers)]


@pytest.fixture(scope="session")
def topics(drivers: Drivers, new_topic: NewTopic, bootstrap: str) -> dict[str, str]:
    """A topic for each writer, filled with all its codecs when first asked for."""
    return {}


def topic_of(writer: str, topics: dict[str, str], drivers: Drivers, new_topic: NewTopic, bootstrap: str) -> str:
    if writer not in topics:
        topic = new_topic()
        for codec in CODECS:
            drivers[writer].produce(topic, written(writer, codec), codec=codec)
        used = [CODECS[codec] for codec, _ in groupby(batch.codec for batch in batches_of(bootstrap, topic))]
        assert used == list(CODECS)
        topics[writer] = topic
    return topics[writer]


@pytest.mark.parametrize("reader", DRIVERS)
@pytest.mark.parametrize("writer", DRIVERS)
def test_what_one_client_writes_another_reads(
    writer: str, reader: str, topics: dict[str, str], drivers: Drivers, new_topic: NewTopic, bootstrap: str
) -> None:
    topic = topic_of(writer, topics, drivers, new_topic, bootstrap)
    sent = [record for codec in CODECS for record in written(writer, codec)]
    with drivers[reader].read(topic, EARLIEST) as opened:
        rows = opened.take(len(sent))
    assert [row.offset for row in rows] == list(range(len(sent)))
    for row, record in zip(rows, sent, strict=True):
        assert row.same_as(record), f"{row} is not {record}"
