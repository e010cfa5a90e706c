"""Values of rows and of state take one shape, whichever way they came."""

from datetime import UTC, datetime

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType, TimestampType

from millstream.pipelines.streams.shapes import Shape

INNER = StructType([StructField("x", LongType()), StructField("at", TimestampType())])
SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("at", TimestampType()),
        StructField("parts", ArrayType(INNER)),
        StructField("named", MapType(StringType(), INNER)),
        StructField("tags", ArrayType(StringType())),
    ]
)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
LOCAL_NOON = NOON.astimezone().replace(tzinfo=None)


def test_rows_as_arrow_gives_them() -> None:
    part = {"x": 1, "at": NOON}
    (row,) = Shape(SCHEMA).rows([Row(id=1, at=NOON, parts=[part, None], named=[("k", part)], tags=["t"])])
    assert row["parts"] == [Row(x=1, at=NOON), None]
    assert row["named"] == {"k": Row(x=1, at=NOON)}
    assert (row["id"], row["at"], row["tags"]) == (1, NOON, ["t"])


def test_state_as_java_gives_it() -> None:
    part = Row(x=1, at=LOCAL_NOON)
    fields = Shape(SCHEMA).fields((1, LOCAL_NOON, [part], {"k": part}, None))
    assert fields["at"] == NOON and fields["at"].tzinfo is not None
    assert fields["parts"] == [Row(x=1, at=NOON)]
    assert fields["named"] == {"k": Row(x=1, at=NOON)}
    assert fields["tags"] is None


def test_rows_without_anything_to_change_are_left_as_they_are() -> None:
    schema = StructType([StructField("id", LongType()), StructField("at", TimestampType())])
    row = Row(id=1, at=NOON)
    assert Shape(schema).rows([row])[0] is row
