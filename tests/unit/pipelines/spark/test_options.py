"""Options read as Spark's Kafka source reads them; what cannot be taken is refused by name and value."""

import pytest

from millstream.client.partitions import EARLIEST, LATEST, READ_COMMITTED
from millstream.config.setting import SettingError
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.options import TABLE, batch_options, check_options, stream_options

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**BROKER, "subscribe": "orders"}


def test_a_batch_reads_all_there_is_and_a_stream_what_comes() -> None:
    batch, stream = batch_options(TOPIC), stream_options(TOPIC)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert batch.fails_on_data_loss
    assert not batch.includes_headers


def test_names_are_read_whatever_their_case() -> None:
    options = batch_options({**BROKER, "SUBSCRIBE": "orders", "failondataloss": "FALSE"})
    assert options.selection.topics == ("orders",)
    assert not options.fails_on_data_loss


def test_a_timestamp_goes_before_timestamps_and_those_before_offsets() -> None:
    given = {**TOPIC, "startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}
    assert batch_options(given).starting.timestamps == {TopicPartition("orders", 0): 5}
    assert batch_options({**given, "startingTimestamp": "7"}).starting.timestamp_ms == 7


def test_offsets_by_partition_may_name_the_ends() -> None:
    given = {
        **TOPIC,
        "startingOffsets": '{"orders": {"0": 23, "1": -2}}',
        "endingOffsets": '{"orders": {"0": 50, "1": -1}}',
    }
    options = batch_options(given)
    assert options.starting.offsets == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): EARLIEST}
    assert options.ending.offsets == {TopicPartition("orders", 0): 50, TopicPartition("orders", 1): LATEST}


def test_partitions_may_be_named_exactly() -> None:
    selection = batch_options({**BROKER, "assign": '{"a": [0, 2], "b": [1]}'}).selection
    assert selection.partitions == (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))


@pytest.mark.parametrize(
    ("text", "ms"), [("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("2 h", 7_200_000), ("9", 9)]
)
def test_a_delay_is_given_in_the_units_people_write(text: str, ms: int) -> None:
    assert stream_options({**TOPIC, "maxTriggerDelay": text}).trigger_delay_max_ms == ms


def test_options_that_tune_sparks_own_consumers_are_taken_and_left_alone() -> None:
    given = {**TOPIC, "kafkaConsumer.pollTimeoutMs": "5", "kafka.max.poll.records": "7", "kafka.group.id": "g"}
    assert batch_options(
        {**given, "kafka.security.protocol": "PLAINTEXT", "kafka.isolation.level": "read_committed"}
    ).isolation == (READ_COMMITTED)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"startingOffsets": "newest"}, "startingOffsets=newest: must be earliest, latest or JSON"),
        ({"startingOffsets": "latest"}, "startingOffsets=latest: a batch cannot start at the latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "a batch cannot start at the latest"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "'0': -3"),
        ({"startingOffsets": '{"orders": 3}'}, "startingOffsets"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest: a batch cannot end"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "a batch cannot end at the earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp=yesterday: must be milliseconds since 1970"),
        ({"startingTimestamp": "-5"}, "startingTimestamp=-5"),
        ({"startingOffsetsByTimestampStrategy": "nearest"}, "startingOffsetsByTimestampStrategy=nearest"),
        ({"minPartitions": "0"}, "minPartitions=0"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many"),
        (
            {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
            "minOffsetsPerTrigger=6: more than maxOffsetsPerTrigger=5",
        ),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay=soon"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe"),
        ({"includeHeaders": "1"}, "includeHeaders=1"),
        ({"kafka.isolation.level": "serializable"}, "kafka.isolation.level=serializable"),
        ({"kafka.bootstrap.servers": "host:port"}, "kafka.bootstrap.servers=host:port"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.security.protocol=SASL_SSL"),
        ({"kafka.sasl.jaas.config": "secret"}, "kafka.sasl.jaas.config=[hidden]"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset=latest"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.isolation.levl": "read_committed"}, "did you mean kafka.isolation.level?"),
        ({"assign": '{"a": [0]}'}, "exactly one of subscribe, subscribePattern and assign"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_value(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as refusal:
        batch_options({**TOPIC, **wrong})
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "kafka.bootstrap.servers="),
        (BROKER, "none is given"),
        ({**BROKER, "subscribe": " , "}, "subscribe=,: must name a topic"),
        ({**BROKER, "subscribePattern": "("}, "subscribePattern=("),
        ({**BROKER, "assign": '{"a": "0"}'}, 'assign={"a": "0"}'),
        ({**BROKER, "assign": "{}"}, "must name a partition"),
    ],
)
def test_what_to_read_must_be_said_and_be_readable(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as refusal:
        check_options(given)
    assert said in str(refusal.value)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name}=5: a stream has no end"):
        stream_options({**TOPIC, name: "5"})


def test_every_option_says_what_it_is_for() -> None:
    assert all(setting.doc for setting in TABLE.values())
