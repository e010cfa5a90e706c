"""``millstream log dump`` on the files of a broker that really wrote them."""

import json
from pathlib import Path

import pytest

from tests.system.broker_process import BrokerProcess
from tests.system.command import Millstream

NOWHERE = Millstream("127.0.0.1:1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left behind: one partition, in several segments."""
    folder = tmp_path_factory.mktemp("data")
    with BrokerProcess(folder) as broker:
        millstream = Millstream(broker.address)
        settings = ("segment.bytes=1048576", "index.interval.bytes=4096")
        millstream("topic", "create", "orders", "-p", 1, "-c", settings[0], "-c", settings[1])
        millstream("produce", "orders", "-K", ":", "-H", "h=1", stdin="k1:v1\nk2:v2\n")
        millstream("perf", "produce", "orders", "-n", 15_000, "-s", 100, "--batch-records", 100, "-q")
        millstream("produce", "orders", "-z", "zstd", stdin="last\n")
    return folder


def rows_of(path: Path, *options: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in NOWHERE("log", "dump", str(path), "-o", "json", *options).lines]


def test_every_batch_of_every_segment_is_there_in_order(data: Path) -> None:
    segments = sorted((data / "orders-0").glob("*.log"))
    assert len(segments) > 1
    next_offset = 0
    for segment in segments:
        position = 0
        assert int(segment.stem) == next_offset
        for row in rows_of(segment):
            assert (row["position"], row["base_offset"]) == (position, next_offset)
            assert isinstance(row["bytes"], int) and isinstance(row["last_offset"], int)
            position += row["bytes"]
            next_offset = row["last_offset"] + 1
        assert position == segment.stat().st_size
    assert next_offset == 15_003


def test_records_are_shown_when_asked_for(data: Path) -> None:
    first = rows_of(data / "orders-0" / f"{0:020}.log", "--records")[0]
    contents = first["contents"]
    assert isinstance(contents, list)
    assert [(record["offset"], record["key"], record["value"], record["headers"]) for record in contents] == [
        (0, "k1", "v1", {"h": "1"}),
        (1, "k2", "v2", {"h": "1"}),
    ]
    text = NOWHERE("log", "dump", str(data / "orders-0" / f"{0:020}.log"), "-r").output
    assert "key=k2 value=v2" in text


def test_an_index_points_at_batches(data: Path) -> None:
    batches = {row["position"]: row for row in rows_of(data / "orders-0" / f"{0:020}.log")}
    entries = rows_of(data / "orders-0" / f"{0:020}.index")
    assert len(entries) > 10
    for entry in entries:
        batch = batches[entry["position"]]
        assert isinstance(batch["base_offset"], int) and isinstance(batch["last_offset"], int)
        assert isinstance(entry["offset"], int)
        assert batch["base_offset"] <= entry["offset"] <= batch["last_offset"]


def test_a_folder_is_dumped_with_all_its_files(data: Path) -> None:
    shown = NOWHERE("log", "dump", str(data / "orders-0"), str(data)).output
    for name in (".log", ".index", ".timeindex", "leader-epoch-checkpoint", "partition.metadata", "meta.properties"):
        assert name in shown
    assert "DAMAGED" not in shown


def test_damage_is_found_and_told(data: Path, tmp_path: Path) -> None:
    whole = bytearray((data / "orders-0" / f"{0:020}.log").read_bytes())
    copy = tmp_path / f"{0:020}.log"
    whole[-1] ^= 1
    copy.write_bytes(whole)
    assert "the CRC does not match" in NOWHERE("log", "dump", str(copy), code=1).lines[-1]
    copy.write_bytes(whole[:-10])
    assert "DAMAGED at" in NOWHERE("log", "dump", str(copy), code=1).lines[-1]


def test_a_file_of_another_kind_and_one_that_is_missing_are_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt" in NOWHERE("log", "dump", str(tmp_path / "notes.txt"), code=2).errors
    assert "No such file" in NOWHERE("log", "dump", str(tmp_path / "0.log"), code=1).errors
