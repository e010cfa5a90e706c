"""A topic's own codec is used at the topic's own level."""

from millstream.config.broker import BrokerConfig
from millstream.config.topic import TopicConfig
from millstream.model.batch import header_at
from millstream.model.records import Record, decode_batch, encode_batch
from millstream.replication.admission import looked_at


def test_batches_are_kept_at_the_level_the_topic_asks_for() -> None:
    words = b" ".join(b"%x" % (i * i * 2654435761 % 65521) for i in range(20_000))
    batch = memoryview(encode_batch([Record(0, 5, None, words)]))
    kept = {
        level: looked_at(
            batch,
            header_at(batch),
            TopicConfig.resolve(BrokerConfig.load(), {"compression.type": "gzip", "compression.gzip.level": level}),
            5,
        )
        for level in ("1", "9")
    }
    assert len(kept["9"]) < len(kept["1"]) < len(batch)
    assert decode_batch(kept["9"])[0].value == words
