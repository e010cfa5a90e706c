"""The same pipelines against a broker: topics in, exactly once out, dead letters among them."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams import Cluster, Topic
from tests.pipelines.records import records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


@pytest.mark.timeout(300)
def test_a_global_table_is_as_new_as_the_batch_and_results_and_dead_letters_come_once(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    cluster = Cluster(broker.address, checkpoints=str(tmp_path))
    names = [topics.new() for _ in range(4)]
    shops = Topic(names[0], "city string", key="shop string", cluster=cluster)
    sales = Topic(names[1], "sale long, at_shop string", errors=names[3], cluster=cluster)
    placed = Topic(names[2], "sale long, city string", key="at_shop string", cluster=cluster)

    def pipeline(name: str) -> None:
        joined = sales.stream().join(shops.global_table(), on={"at_shop": "shop"}, how="left")
        query = joined.to(placed, name=name, processingTime="0 seconds")
        try:
            query.processAllAvailable()
            if name == "first":
                topics.put(shops.name, [b'{"city": "Roma"}'], key=b"one")
                topics.put(sales.name, [b'{"sale": 2, "at_shop": "one"}'])
                query.processAllAvailable()
        finally:
            query.stop()

    topics.put(shops.name, [b'{"city": "Rome"}'], key=b"one")
    topics.put(sales.name, [b'{"sale": 1, "at_shop": "one"}', b"broken"])
    pipeline("first")
    assert [json.loads(found.value or b"") for found in records_of(broker.address, placed.name)] == [
        {"sale": 1, "city": "Rome"},
        {"sale": 2, "city": "Roma"},
    ]
    (letter,) = records_of(broker.address, names[3])
    assert letter.value == b"broken" and dict(letter.headers)["__connect.errors.offset"] == b"1"

    pipeline("first-again")  # A new name: from the beginning.
    cities = placed.read().groupBy("sale").agg(F.sort_array(F.collect_list("city")).alias("cities")).orderBy("sale")
    assert [(row["sale"], row["cities"]) for row in cities.collect()] == [(1, ["Roma", "Rome"]), (2, ["Roma", "Roma"])]
    assert [(row["shop"], row["city"]) for row in shops.snapshot().collect()] == [("one", "Roma")]
