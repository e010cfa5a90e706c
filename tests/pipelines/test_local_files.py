"""Files of Spark's are made with the permissions that they would have anyway, and by no other process."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from millstream.pipelines.spark.local_files import NAME, quicken_local_files


@pytest.fixture
def files(spark: SparkSession) -> Any:
    return _files(spark)


def _files(spark: SparkSession) -> Any:
    """What Spark makes its files with."""
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), _settings(spark))


def _settings(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()


def test_a_session_has_it_and_no_setting_names_it(spark: SparkSession, files: Any) -> None:
    """Executors elsewhere are given the settings, and would not know the class."""
    assert files.getClass().getName() == NAME
    for settings in (_settings(spark), files.getConf()):
        assert settings.get("fs.file.impl") != NAME


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["a directory", "a file"])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755, 0o777, 0o000, 0o1777])
def test_permissions_are_what_was_asked_for(
    spark: SparkSession, files: Any, tmp_path: Path, make: Callable[[Path], None], mode: int
) -> None:
    jvm: Any = spark._jvm
    place = tmp_path / "place with a space"
    make(place)
    files.setPermission(jvm.org.apache.hadoop.fs.Path(str(place)), _permission(jvm, mode))
    assert stat.S_IMODE(place.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_that_the_mask_leaves(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    place = tmp_path / "file"
    files.create(jvm.org.apache.hadoop.fs.Path(str(place))).close()
    assert stat.S_IMODE(place.stat().st_mode) == 0o666 & ~_mask(jvm, spark)


def test_a_directory_in_one_that_gives_its_group_to_what_is_in_it_does_so_too(
    spark: SparkSession, files: Any, tmp_path: Path
) -> None:
    jvm: Any = spark._jvm
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    assert files.mkdirs(jvm.org.apache.hadoop.fs.Path(str(shared / "checkpoint")))
    mode = stat.S_IMODE((shared / "checkpoint").stat().st_mode)
    assert mode == stat.S_ISGID | 0o777 & ~_mask(jvm, spark)


def test_a_file_that_is_not_there_is_an_error(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    gone = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "gone"))
    with pytest.raises(Exception, match="NoSuchFileException"):
        files.setPermission(gone, _permission(jvm, 0o644))


def test_no_process_is_started_for_it(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    """Hadoop starts ``chmod`` as a child of Java, and waits for it: Linux counts the pages that such children touch."""
    jvm: Any = spark._jvm
    before = _faults_of_children(spark)
    for number in range(20):
        files.create(jvm.org.apache.hadoop.fs.Path(str(tmp_path / str(number)))).close()
    assert _faults_of_children(spark) == before


def test_to_do_it_twice_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    quicken_local_files(spark)
    assert _files(spark).getClass().getName() == NAME


@pytest.mark.parametrize("before", ["nobody", "an earlier session"])
def test_a_file_system_that_the_settings_name_goes_first(spark: SparkSession, files: Any, before: str) -> None:
    chosen, settings = "org.apache.hadoop.fs.RawLocalFileSystem", _settings(spark)
    if before == "nobody":
        files.close()
    settings.set("fs.file.impl", chosen)
    try:
        quicken_local_files(spark)
        assert _files(spark).getClass().getName() == chosen
        settings.unset("fs.file.impl")
        quicken_local_files(spark)
        assert _files(spark).getClass().getName() == chosen, "whoever made it wanted it"
    finally:
        settings.unset("fs.file.impl")
        _files(spark).close()
        quicken_local_files(spark)
    assert _files(spark).getClass().getName() == NAME


def _permission(jvm: Any, mode: int) -> Any:
    return jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:04o}")


def _mask(jvm: Any, spark: SparkSession) -> int:
    mask: int = jvm.org.apache.hadoop.fs.permission.FsPermission.getUMask(_settings(spark)).toShort()
    return mask


def _faults_of_children(spark: SparkSession) -> int:
    """Of those of Java's that have come to their end."""
    pid = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    return int(after_name.split()[8])
