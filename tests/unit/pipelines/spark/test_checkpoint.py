"""Whose a checkpoint is, from the path that Spark was given."""

from pathlib import Path

from millstream.pipelines.spark.checkpoint import query_id


def test_a_checkpoint_on_this_machine_tells_its_query(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"a-b-c"}')
    found = [query_id(f"{prefix}{tmp_path}") for prefix in ("", "file:", "file://")]
    assert found == ["a-b-c"] * 3


def test_one_that_is_elsewhere_broken_or_not_there_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{")
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "metadata").write_text("[]")
    places = ["", "s3://bucket/c", "hdfs://host/c", str(tmp_path), f"{tmp_path}/list", f"{tmp_path}/none"]
    assert [query_id(place) for place in places] == [None] * len(places)
