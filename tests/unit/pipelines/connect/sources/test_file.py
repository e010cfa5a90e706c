"""Files read line by line, from any place to any other."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Offset, Partition
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.settings import SOURCE
from millstream.pipelines.connect.sources.file import FileSource

ALL = 1 << 30


def _source(path: Path, **given: str) -> FileSource:
    """``csv__header`` stands for csv.header."""
    texts = {name.replace("__", "."): text for name, text in given.items()}
    config, errors = parse(
        (*SOURCE, *FileSource.options),
        {"name": "files", "connector.class": "FileSource", "file": str(path), "topic": "lines", **texts},
    )
    assert not errors
    assert not FileSource.check(config)
    return FileSource(config)


def _read(source: FileSource, start: Offset | None = None, limit: int = ALL) -> tuple[list[Any], Offset | None]:
    """What there is to read of the one file now, and where that ends."""
    [partition] = source.partitions()
    end = source.latest(partition, start, limit)
    return ([] if end is None or end == start else _between(source, partition, start, end)), end


def _between(source: FileSource, partition: Partition, start: Offset | None, end: Offset) -> list[Any]:
    return [record.value for record in source.read(partition, start, end)]


def test_a_file_is_read_as_it_grows_and_only_whole_lines_count(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    source = _source(file)
    assert source.partitions() == []
    file.write_text("one\ntwo\r\nthr")
    values, end = _read(source)
    assert values == ["one", "two"]
    with file.open("a") as more:
        more.write("ee\n\nfive")
    values, end = _read(source, end)
    assert values == ["three", ""]
    assert _read(source, end) == ([], end)


def test_a_last_line_without_an_end_counts_once_nobody_writes_any_more(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo")
    os.utime(file, (1, 1))
    assert _read(_source(file))[0] == ["one", "two"]
    assert _read(_source(file, unterminated__after__ms="-1"))[0] == ["one"]


def test_a_file_that_was_cut_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    source = _source(file)
    _, end = _read(source)
    file.write_text("new\n")
    values, end = _read(source, end)
    assert (values, end) == (["new"], {"position": 4})


def test_no_more_is_taken_than_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"{number}\n" for number in range(10)))
    source = _source(file)
    found, end = [], None
    for count in (4, 4, 2):
        values, end = _read(source, end, limit=4)
        assert len(values) == count
        found += values
    assert found == [str(number) for number in range(10)]


def test_a_directory_is_its_files_and_new_ones_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("x\n1\n")
    (tmp_path / ".hidden.csv").write_text("x\n1\n")
    (tmp_path / "c.txt").write_text("no")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "d.csv").write_text("x\n1\n")
    flat, deep = _source(tmp_path, file__pattern="*.csv"), _source(tmp_path, file__pattern="**/*.csv")
    assert flat.partitions() == [{"filename": str(tmp_path / "b.csv")}]
    (tmp_path / "a.csv").write_text("x\n")
    assert [os.path.basename(each["filename"]) for each in deep.partitions()] == ["a.csv", "b.csv", "d.csv"]


def test_csv_has_its_names_from_its_header_wherever_reading_begins(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('\ufeffname,said\nanna,"one\ntwo"\nbob,"a ""b"", c"\n\neve,\n')
    source = _source(file, format="csv")
    values, end = _read(source, limit=2)
    assert values == [{"name": "anna", "said": "one\ntwo"}]
    values, _ = _read(source, end)
    assert values == [{"name": "bob", "said": 'a "b", c'}, {"name": "eve", "said": ""}]
    [partition] = source.partitions()
    [first, *_] = source.read(partition, None, {"position": file.stat().st_size})
    assert first.value_schema is not None
    assert [field.name for field in first.value_schema.fields] == ["name", "said"]


def test_csv_without_a_header_has_names_that_are_given_or_made(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1;2\n3;4\n")
    how = {"format": "csv", "csv__header": "false", "csv__delimiter": ";"}
    assert _read(_source(file, **how))[0] == [{"column1": "1", "column2": "2"}, {"column1": "3", "column2": "4"}]
    assert _read(_source(file, **how, csv__names="x,y"))[0][0] == {"x": "1", "y": "2"}


def test_lines_that_cannot_be_read_end_it_or_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'{"a": 1}\nno\n\n"\xff"\n[2]\n')
    with pytest.raises(DataError, match=r"a\.json, position 9"):
        _read(_source(file, format="json"))
    assert _read(_source(file, format="json", errors__tolerance="all"))[0] == [{"a": 1}, [2]]


def test_a_file_that_is_gone_before_it_was_read_is_told_of_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be planned for ever: what a batch reads is settled before it is read."""
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    source = _source(file)
    [partition] = source.partitions()
    end = source.latest(partition, None, ALL)
    assert end is not None
    file.unlink()
    assert source.latest(partition, end, ALL) == end
    assert _between(source, partition, None, end) == []
    assert caplog.messages == [f"{file} is gone: what was at 0 to 4 was not read"]


def test_a_file_in_the_place_of_one_that_was_to_be_read_is_left_for_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes are not those that were planned, and the first of them would be the end of some line."""
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    source = _source(file)
    _, start = _read(source, limit=1)
    [partition] = source.partitions()
    end = source.latest(partition, start, ALL)
    assert end is not None
    file.write_text("another\n"[1:])
    assert _between(source, partition, start, end) == []
    assert caplog.messages == [f"{file} is another file: what was at 4 to 8 was not read, and is gone"]
    assert _read(source, end)[0] == ["nother"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text('ab"\n,', max_size=8), min_size=1, max_size=12), st.integers(1, 5))
def test_records_of_csv_survive_wherever_batches_are_cut(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], limit: int
) -> None:
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    file.write_text(
        "n,t\n" + "".join(f'{number},"{text.replace(chr(34), chr(34) * 2)}"\n' for number, text in enumerate(texts))
    )
    source = _source(file, format="csv")
    found: list[str] = []
    end: Offset | None = None
    while True:
        values, reached = _read(source, end, limit)
        if reached == end:
            break
        found, end = found + [value["t"] for value in values], reached
    assert found == texts


@pytest.mark.parametrize(
    "name", ["org.apache.kafka.connect.file.FileStreamSourceConnector", "FileStreamSource", "FileSource"]
)
def test_configs_of_kafkas_own_file_source_work(name: str) -> None:
    assert plugins.connector(name) is FileSource
