"""Files that batches are appended to, each once, whatever happens between."""

import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import Config, parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.settings import SINK
from millstream.pipelines.connect.sinks.file import FileSink


def _config(**given: str) -> Config:
    texts = {name.replace("__", "."): text for name, text in given.items()}
    config, errors = parse(
        (*SINK, *FileSink.options), {"name": "files", "connector.class": "FileSink", "topics": "t", **texts}
    )
    assert not errors
    return config


def _records(*values: Any, partition: int = 0) -> list[Record]:
    return [
        Record("t", value, partition=partition, offset=number, timestamp_ms=0, origin="t")
        for number, value in enumerate(values)
    ]


def _take(sink: FileSink, number: int, *parts: list[Record], query: str = "q") -> None:
    batch = Batch(query, number)
    sink.commit(batch, [sink.write(iter(part), batch) for part in parts])


def test_one_file_gets_all_partitions_and_a_batch_that_comes_again_once(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    sink = FileSink(_config(file=str(file)))
    _take(sink, 0, _records("a", "b"), _records("c", partition=1))
    for _ in range(2):
        _take(sink, 1, _records("d"))
    assert file.read_text() == "a\nb\nc\nd\n"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_what_a_crash_left_behind_the_last_batch_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    sink = FileSink(_config(file=str(file)))
    _take(sink, 0, _records("a"))
    with file.open("a") as torn:
        torn.write("b\nhal")
    _take(sink, 1, _records("b", "c"))
    assert file.read_text() == "a\nb\nc\n"


def test_a_crash_in_the_very_first_batch_leaves_what_was_there_before(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text("old\n")
    sink = FileSink(_config(directory=str(tmp_path)))
    target = tmp_path / "t-0.txt"
    target.write_text("old\n")

    class Killed(BaseException):
        pass

    def dying() -> Any:
        yield _records("a")[0]
        raise Killed

    with pytest.raises(Killed):
        sink.write(dying(), Batch("q", 0))
    _take(sink, 0, _records("a", "b"))
    assert target.read_text() == "old\na\nb\n"


def test_a_new_generation_goes_on_behind_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    sink = FileSink(_config(file=str(file)))
    _take(sink, 3, _records("a"))
    _take(sink, 3, _records("b"), query="another")
    assert file.read_text() == "a\nb\n"


def test_a_file_that_somebody_took_away_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    sink = FileSink(_config(file=str(file)))
    _take(sink, 0, _records("a"))
    file.unlink()
    _take(sink, 1, _records("b"))
    assert file.read_text() == "b\n"


def test_a_directory_has_a_file_for_each_partition(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    sink = FileSink(_config(directory=str(folder), format="json"))
    for _ in range(2):
        _take(sink, 0, _records({"a": 1}), _records([None, "ü"], partition=1))
    assert (folder / "t-0.jsonl").read_text() == '{"a":1}\n'
    assert (folder / "t-1.jsonl").read_text() == '[null,"ü"]\n'
    shutil.rmtree(folder)


def test_json_has_what_python_has_and_json_has_not(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    value = {
        "d": Decimal("1.50"),
        "b": b"\x00\xff",
        "t": datetime(2024, 1, 2, 3, tzinfo=UTC),
        "day": date(2024, 1, 2),
    }
    _take(FileSink(_config(file=str(file), format="json")), 0, _records(value, None))
    first, second = map(json.loads, file.read_text().splitlines())
    assert first == {"d": "1.50", "b": "AP8=", "t": "2024-01-02T03:00:00+00:00", "day": "2024-01-02"}
    assert second is None


def test_csv_begins_with_its_header_once_and_refuses_what_has_no_place(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    sink = FileSink(_config(file=str(file), format="csv", csv__names="name,said"))
    refused: list[str] = []
    sink.refuse = lambda record, error: refused.append(str(error))  # type: ignore[method-assign]
    _take(sink, 0, _records({"name": "anna", "said": 'a "b",\nc'}, {"name": "bob", "age": 3}, "text", None))
    _take(sink, 1, _records({"said": 7}))
    assert file.read_text() == 'name,said\nanna,"a ""b"",\nc"\n,7\n'
    assert len(refused) == 3
    assert "csv.names does not name age" in refused[0]


def test_a_record_that_cannot_be_written_ends_it_where_nobody_takes_it(tmp_path: Path) -> None:
    sink = FileSink(_config(file=str(tmp_path / "out.jsonl"), format="json"))
    with pytest.raises(DataError, match="cannot be written as JSON"):
        sink.write(iter(_records({"a": object()})), Batch("q", 0))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, {"file": "either file or directory must be given"}),
        ({"file": "a", "directory": "b"}, {"file": "either file or directory must be given, and not both"}),
        ({"file": "a", "format": "csv"}, {"csv.names": "the fields must be named for CSV to be written"}),
    ],
)
def test_a_config_that_cannot_work_is_refused(given: dict[str, str], wrong: dict[str, str]) -> None:
    assert FileSink.check(_config(**given)) == wrong
