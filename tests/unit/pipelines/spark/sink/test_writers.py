"""The writers as Spark makes them: what they refuse, and when there is nothing left to do."""

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from millstream.config.setting import SettingError
from millstream.pipelines.spark.sink.writers import Written, batch_writer, stream_writer

GIVEN = {"kafka.bootstrap.servers": "here:9092", "topic": "orders"}
COLUMNS = StructType([StructField("value", BinaryType())])


def test_a_stream_does_not_go_by_the_name_of_an_application() -> None:
    """Another with that name, or with a new checkpoint, would have its batches taken for written."""
    named = {**GIVEN, "txnAppId": "shop", "txnVersion": "1"}
    with pytest.raises(SettingError, match=r"^txnAppId=shop: is for foreachBatch"):
        stream_writer(named, COLUMNS, False)
    batch_writer(named, COLUMNS, False)
    stream_writer(GIVEN, COLUMNS, False)


def test_of_a_batch_that_its_task_has_committed_nothing_is_left_to_do() -> None:
    """Nor is anybody asked: there is no broker here."""
    writer = stream_writer(GIVEN, COLUMNS, False)
    settled = Written("q", None, 3, 300, is_settled=True)
    writer.commit([settled], 7)
    writer.abort([settled], 7)
    with pytest.raises(AssertionError):
        writer.commit([settled, Written("q", None, 0, 0)], 7)
