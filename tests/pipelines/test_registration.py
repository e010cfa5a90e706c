"""A session knows the data source by an object of ours, which has each query's writer made once."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.pipelines.spark import registration
from millstream.pipelines.spark.registration import NAME, register

PLAIN = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"


def known(spark: SparkSession) -> Any:
    """What Spark asks for a writer."""
    session: Any = spark._jsparkSession
    return session.sessionState().dataSourceManager().clone().lookupDataSource("millstream")


def writer(
    spark: SparkSession, options: Mapping[str, str] = {}, *, streaming: bool = True, overwrite: bool = False
) -> Any:
    jvm: Any = spark._jvm
    given = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "checkpointLocation": "/kept", **options}
    in_java = jvm.java.util.HashMap()
    for name, value in given.items():
        in_java.put(name, value)
    schema = spark.createDataFrame([(b"v",)], "value binary")._jdf.schema()
    asked = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(in_java)
    return known(spark).createWriteInfoInPython("millstream", schema, asked, overwrite, streaming)


@pytest.fixture
def as_it_was(spark: SparkSession) -> Iterator[None]:
    yield
    register(spark)


def test_a_query_has_its_writer_made_once(spark: SparkSession) -> None:
    assert known(spark).getClass().getName() == NAME
    first = writer(spark)
    assert writer(spark).equals(first)
    assert not writer(spark, {"topic": "another"}).equals(first)
    assert not writer(spark, overwrite=True).equals(first)


def test_a_batch_is_another_job_each_time(spark: SparkSession) -> None:
    assert not writer(spark, streaming=False).equals(writer(spark, streaming=False))


def test_what_a_writer_refuses_is_refused_each_time(spark: SparkSession) -> None:
    for _ in range(2):
        with pytest.raises(Exception, match="compression"):
            writer(spark, {"kafka.compression.type": "none of them"})


def test_executors_are_sent_an_object_that_they_know(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    sent = bytes(jvm.org.apache.spark.util.Utils.serialize(known(spark)))
    assert PLAIN.encode() in sent
    assert NAME.encode() not in sent


@pytest.mark.usefixtures("as_it_was")
def test_where_no_class_can_be_made_the_source_is_known_all_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(*_: object) -> Any:
        raise RuntimeError("there is no compiler")

    monkeypatch.setattr(registration, "compiled", compiled)
    register(spark)
    assert known(spark).getClass().getName() == PLAIN
