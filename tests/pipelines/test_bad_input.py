"""What cannot be read is refused by Spark with our words: the option, its value, and what is wrong with it."""

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.pipelines.tables import load, load_stream
from tests.pipelines.topics import Topics


@pytest.fixture(scope="module")
def three(topics: Topics) -> str:
    """A topic with three records."""
    topic = topics.new()
    topics.put(topic, list("abc"))
    return topic


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"startingOffsets": "newest"}, "startingOffsets=newest: must be earliest, latest or JSON"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss=perhaps: must be true or false"),
        ({"startingofset": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka__security__protocol": "SSL"}, "kafka.security.protocol=SSL: only PLAINTEXT"),
    ],
)
def test_wrong_values_are_refused_when_the_table_is_loaded(
    spark: SparkSession, topics: Topics, three: str, wrong: dict[str, object], said: str
) -> None:
    with pytest.raises(PySparkException) as refusal:
        load(spark, topics.address, subscribe=three, **wrong)
    assert said in str(refusal.value)


def test_what_is_not_there_is_refused_when_it_is_read(spark: SparkSession, topics: Topics, three: str) -> None:
    beyond = json.dumps({three: {"0": 4}})
    cases: list[tuple[dict[str, object], str]] = [
        (
            {"subscribe": "no-such-topic"},
            f"subscribe=no-such-topic: there is no topic 'no-such-topic' at {topics.address}",
        ),
        ({"assign": json.dumps({three: [0, 7]})}, f"there is no partition {three}-7"),
        ({"subscribe": three, "startingOffsets": beyond}, f"partition {three}-0 has offsets from 0 to 3 only, not 4"),
        ({"subscribe": three, "endingOffsets": beyond}, f"endingOffsets={beyond}: partition {three}-0 has offsets"),
        (
            {"subscribe": three, "startingOffsets": '{"other": {"0": 1}}'},
            f"must name every partition; missing: {three}-0",
        ),
    ]
    for options, said in cases:
        with pytest.raises(PySparkException) as refusal:
            load(spark, topics.address, **options).collect()
        assert said in str(refusal.value)


def test_a_broker_that_is_not_there_is_named(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"nothing listens at 127\.0\.0\.1:1"):
        load(spark, "127.0.0.1:1", subscribe="orders").collect()


def test_a_stream_refuses_what_it_cannot_start(spark: SparkSession, topics: Topics, three: str) -> None:
    beyond = json.dumps({three: {"0": 4}})
    cases: list[tuple[dict[str, object], str]] = [
        ({"subscribe": "no-such-topic"}, "subscribe=no-such-topic: there is no topic"),
        ({"subscribe": three, "endingOffsets": "latest"}, "endingOffsets=latest: a stream has no end"),
        (
            {"subscribe": three, "startingOffsets": beyond},
            f"startingOffsets={beyond}: partition {three}-0 has offsets from 0 to 3 only, not 4",
        ),
    ]
    for options, said in cases:
        with pytest.raises(PySparkException) as refusal:
            query = load_stream(spark, topics.address, **options).writeStream.format("noop").start()
            query.processAllAvailable()
        assert said in str(refusal.value)
