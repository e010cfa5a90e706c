"""Topics in and out: branches, dead letters, tables as changelogs, progress by name, state that can be asked."""

import json

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams import Stream, StreamsError, TestDriver, Topic, read_state, state_operators
from tests.pipelines.streams.feeding import plain, plain_steps

ORDERS = Topic("orders", "id long, total double", key="user string", errors="orders.dead")
TOTALS = Topic("totals", "total double", key="user string")


def test_branches_take_the_first_match_and_meet_again(spark: SparkSession) -> None:
    with TestDriver(spark) as driver:
        for number, total in enumerate([5.0, 50.0, 500.0, None]):
            driver.send(ORDERS, {"id": number, "total": total}, key="a", at=number)
        parts = ORDERS.stream().branch(large="total >= 100", some=F.col("total") >= 10)
        assert {name: part.df.isStreaming for name, part in parts.items()} == dict.fromkeys(
            ("large", "some", "rest"), True
        )
        labelled = [part.with_columns(part=F.lit(name)) for name, part in parts.items()]
        merged = labelled[0].merge(*labelled[1:])
        assert len(merged.dead) == 1
        found = plain_steps(driver.steps(merged.select("id", "part")), "id", "part", "_timestamp")
        assert found[0] == {(0, "rest", 0), (1, "some", 1), (2, "large", 2), (3, "rest", 3)}
        with pytest.raises(StreamsError, match="merge: columns"):
            labelled[0].merge(ORDERS.stream())


def test_records_that_do_not_fit_go_to_their_topic_and_the_rest_goes_on(spark: SparkSession) -> None:
    copies = Topic("copies", "id long, total double", key="user string", format="csv")
    letters = Topic("orders.dead", "value binary", format="raw")
    with TestDriver(spark) as driver:
        driver.send(ORDERS, {"id": 1, "total": 2.5}, key="a")
        driver.send(ORDERS, b'{"id": "one"}', key="b")
        driver.send(ORDERS, {"id": 2, "total": 1}, key=None)
        driver.send(ORDERS, None, key="c")
        ORDERS.stream().to(copies)
        assert [plain(row, "user", "id", "total") for row in driver.records(copies)] == [("a", 1, 2.5)]
        dead = driver.read("orders.dead", {}).orderBy("offset").collect()
        reasons = [{one["key"]: bytes(one["value"]).decode() for one in row["headers"]} for row in dead]
        assert [bytes(row["value"]) for row in driver.records(letters)] == [b'{"id": "one"}', b'{"id": 2, "total": 1}']
    assert [reason["__connect.errors.offset"] for reason in reasons] == ["1", "2"]
    assert reasons[0]["__connect.errors.topic"] == "orders"
    assert "not JSON of struct<id:bigint,total:double>" in reasons[0]["__connect.errors.exception.message"]
    assert reasons[1]["__connect.errors.exception.message"] == "key: no key"


def test_a_record_that_does_not_fit_ends_the_query_and_is_named(spark: SparkSession) -> None:
    with TestDriver(spark) as driver:
        strict = Topic("strict", "id long not null")
        driver.send(strict, {"id": 1})
        driver.send(strict, {"ID": 2})
        with pytest.raises(
            StreamingQueryException, match=r"topic strict, partition 0, offset 1 .* field id is missing"
        ):
            driver.rows(strict.stream())
        kept = Topic("strict", "id long not null", errors="column").stream()
        assert [(row["id"], row["_error"], json.loads(row["_raw"])) for row in driver.rows(kept)] == [
            (1, None, {"id": 1}),
            (None, "field id is missing", {"ID": 2}),
        ]


def _totals() -> Stream:
    return ORDERS.stream().group_by().agg(total=F.sum("total"))


def test_a_name_owns_its_progress_and_a_new_one_starts_from_the_beginning(spark: SparkSession) -> None:
    with TestDriver(spark) as driver:
        driver.send(ORDERS, {"id": 1, "total": 2.0}, key="a")
        _totals().to(TOTALS, name="totals-v1")
        driver.send(ORDERS, {"id": 2, "total": 3.0}, key="a")
        driver.send(ORDERS, {"id": 3, "total": 1.0}, key="b")
        _totals().to(TOTALS, name="totals-v1")
        again = Topic("totals-again", "total double", key="user string")
        _totals().to(again, name="totals-v2")
        assert [plain(row, "user", "total") for row in driver.records(TOTALS)] == [("a", 2.0), ("a", 5.0), ("b", 1.0)]
        assert {plain(row, "user", "total") for row in driver.records(again)} == {("a", 2.0), ("a", 5.0), ("b", 1.0)}
        kept = read_state(spark, f"{driver.checkpoints}/totals-v1")
        assert {(row["user"], row["sum"]) for row in kept.collect()} == {("a", 5.0), ("b", 1.0)}


def test_a_table_goes_out_as_a_changelog_and_its_state_can_be_asked(spark: SparkSession) -> None:
    users = Topic("users", "name string", key="user long")
    adults = Topic("adults", "name string", key="user long", key_format="json")
    with TestDriver(spark) as driver:
        driver.send(users, {"name": "Ann"}, key=1)
        driver.send(users, {"name": "Bob"}, key=2)
        driver.step()
        driver.send(users, None, key=1)
        driver.send(users, {"name": "minor"}, key=2)
        users.table().where("name <> 'minor'").to(adults)
        changes = [plain(row, "user", "name", "_deleted") for row in driver.records(adults)]
        assert sorted(changes[:2]) == [(1, "Ann", False), (2, "Bob", False)]
        assert sorted(changes[2:]) == [(1, None, True), (2, None, True)]
        assert [(row["user"], row["name"]) for row in adults.snapshot().collect()] == []
        assert [(row["user"], row["name"]) for row in users.snapshot().collect()] == [(2, "minor")]
        checkpoint = f"{driver.checkpoints}/to-adults"
        table = read_state(spark, checkpoint, "table")
        assert [(row["user"], row["name"]) for row in table.collect()] == [(2, "minor")]
        first = read_state(spark, checkpoint, "table", batch=0)
        assert {(row["user"], row["name"]) for row in first.collect()} == {(1, "Ann"), (2, "Bob")}
        assert [row["operatorId"] for row in state_operators(spark, checkpoint).collect()] == [0]


def test_a_wrong_declaration_is_refused_by_name(spark: SparkSession) -> None:
    with TestDriver(spark):
        for topic, message in (
            (Topic("t", "id long", format="xml"), "format='xml': one of avro, csv, json, protobuf, raw"),
            (Topic("t", "_order long"), "_order is a name of Millstream's own"),
            (Topic("t", "id long", time="when"), "time='when': topic 't' has id"),
            (Topic("t", "id long", key="a long, b long"), "takes one column of binary"),
        ):
            with pytest.raises(StreamsError, match=message):
                topic.stream()
        with pytest.raises(StreamsError, match=r"table\(\) of topic 't' needs to know its key"):
            Topic("t", "id long").table()
        with pytest.raises(StreamsError, match=r"to\('totals'\): no column total among"):
            Topic("t", "id long", key="user string").stream().to(TOTALS)
        with pytest.raises(StreamsError, match=r"newest='luck'\): one of offset, timestamp"):
            ORDERS.table(newest="luck")
