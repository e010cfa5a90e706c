"""A log directory read by its files alone."""

from pathlib import Path

import pytest

from millstream.config.setting import SettingError
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, COMMIT, Record, encode_batch, encode_marker
from millstream.pipelines.spark.options import batch_options
from millstream.pipelines.spark.origin import ending, starting
from millstream.pipelines.spark.planning import DataLost
from millstream.pipelines.spark.segments import DirectoryOrigin, read_from_segments
from millstream.pipelines.spark.source import origin_of, tasks_of
from millstream.storage.aborted_index import AbortedTransaction, encode_entries
from millstream.storage.producer_snapshot import encode_snapshot
from millstream.storage.producer_state import Producer

ORDERS = TopicPartition("orders", 0)


def plain(base_offset: int, count: int = 10, timestamp: int = 1_000, **how: object) -> bytes:
    records = [Record(timestamp=timestamp + number, value=b"v" * 20) for number in range(count)]
    return bytes(encode_batch(records, base_offset=base_offset, **how))  # type: ignore[arg-type]


def part(base_offset: int, producer_id: int) -> bytes:
    return plain(base_offset, 1, producer_id=producer_id, producer_epoch=0, transactional=True)


def marker(kind: int, base_offset: int, producer_id: int) -> bytes:
    return bytes(encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=base_offset))


class Directory:
    """Files as a broker would leave them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def segment(self, base: int, data: bytes, tp: TopicPartition = ORDERS) -> None:
        self.file(f"{tp}/{base:020d}.log", data)

    def file(self, name: str, data: bytes | str) -> None:
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)

    def read(self, **options: str) -> list[int]:
        """The offsets that a batch with these options gives."""
        given = {"path": str(self.path), "subscribe": "orders", **options}
        parsed = batch_options(given)
        origin = origin_of(parsed)
        partitions = origin.partitions(parsed.selection, must_exist=True)
        tasks = tasks_of(origin, starting(origin, parsed, partitions), ending(origin, parsed, partitions), parsed)
        return [
            offset for task in tasks for table in read_from_segments(task) for offset in table["offset"].to_pylist()
        ]


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_segments_are_read_one_after_another(directory: Directory) -> None:
    directory.segment(0, plain(0) + plain(10))
    directory.segment(20, plain(20))
    assert directory.read() == list(range(30))
    bounds = {"startingOffsets": '{"orders": {"0": 5}}', "endingOffsets": '{"orders": {"0": 25}}'}
    assert directory.read(**bounds) == list(range(5, 25))
    assert sorted(directory.read(minPartitions="7")) == list(range(30))


@pytest.mark.parametrize("cut", [1, 70, 200])
def test_a_batch_that_is_not_there_to_its_end_is_not_there(directory: Directory, cut: int) -> None:
    directory.segment(0, plain(0) + plain(10)[:-cut])
    assert directory.read() == list(range(10))


def test_a_directory_read_in_small_steps_gives_the_same(directory: Directory) -> None:
    directory.segment(0, plain(0, 50) + plain(50, 1) + plain(51, 200))
    assert directory.read(**{"kafka.max.partition.fetch.bytes": "100"}) == list(range(251))


def test_the_log_starts_where_the_checkpoint_says(directory: Directory) -> None:
    directory.segment(0, plain(0))
    directory.file("log-start-offset-checkpoint", "0\n1\norders 0 4\n")
    assert directory.read() == list(range(4, 10))


def test_gaps_that_compaction_left_are_passed_over(directory: Directory) -> None:
    directory.segment(0, plain(0, 3))
    directory.segment(20, plain(25, 2))
    assert directory.read() == [0, 1, 2, 25, 26]


def test_timestamps_bound_what_is_read(directory: Directory) -> None:
    directory.segment(0, plain(0, timestamp=1_000))
    directory.segment(10, plain(10, timestamp=2_000))
    assert directory.read(startingTimestamp="1005", endingTimestamp="2003") == [5, 6, 7, 8, 9, 10, 11, 12]
    with pytest.raises(SettingError, match="startingTimestamp=9000"):
        directory.read(startingTimestamp="9000")


def test_aborted_and_open_transactions_are_found_by_walking(directory: Directory) -> None:
    data = [part(0, 7), part(1, 8), marker(ABORT, 2, 7), part(3, 7), marker(COMMIT, 4, 7), part(5, 9), part(6, 7)]
    directory.segment(0, b"".join([*data, marker(COMMIT, 7, 8)]))
    assert directory.read() == [0, 1, 3, 5, 6]
    assert directory.read(**COMMITTED) == [1, 3]


def test_what_the_disk_surely_has_is_known_from_snapshot_and_index(directory: Directory) -> None:
    """Producer 7's abort lies before the snapshot and is in the index; 9 opened before it and commits after."""
    directory.segment(0, part(0, 7) + part(1, 9) + marker(ABORT, 2, 7))
    directory.file(f"orders-0/{0:020d}.txnindex", encode_entries([AbortedTransaction(7, 0, 2, 1)]))
    still_open = Producer(9, 0)
    still_open.txn_first_offset = 1
    directory.file(f"orders-0/{3:020d}.snapshot", encode_snapshot([still_open]))
    directory.file("recovery-point-offset-checkpoint", "0\n1\norders 0 3\n")
    directory.segment(3, plain(3, 1))
    assert directory.read(**COMMITTED) == []
    directory.segment(3, plain(3, 1) + marker(COMMIT, 4, 9))
    assert directory.read(**COMMITTED) == [1, 3]


def test_an_abort_behind_a_tasks_range_counts_in_it(directory: Directory) -> None:
    directory.segment(0, part(0, 7) + part(1, 8) + marker(COMMIT, 2, 8) + part(3, 7) + marker(ABORT, 4, 7))
    assert directory.read(**COMMITTED, minPartitions="5") == [1]


def test_topics_are_chosen_by_name_pattern_and_partition(directory: Directory) -> None:
    for name in ("orders-0", "orders-1", "fruit-apple-0", "__consumer_offsets-0", "orders-2.1234-delete"):
        directory.file(f"{name}/{0:020d}.log", plain(0, 1))
    origin = DirectoryOrigin(batch_options({"path": str(directory.path), "subscribe": "orders"}))

    def chosen(**options: str) -> list[str]:
        selection = batch_options({"path": str(directory.path), **options}).selection
        return [str(tp) for tp in origin.partitions(selection, must_exist=True)]

    assert chosen(subscribe="orders") == ["orders-0", "orders-1"]
    assert chosen(subscribePattern=".*") == ["fruit-apple-0", "orders-0", "orders-1"]
    assert chosen(assign='{"orders": [1]}') == ["orders-1"]
    with pytest.raises(SettingError, match=r"subscribe=nothing: path=.* has no nothing"):
        chosen(subscribe="nothing")


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"path=.*gone: is no log directory"):
        Directory(tmp_path / "gone").read()


def test_a_damaged_batch_is_told_with_its_place(directory: Directory) -> None:
    data = bytearray(plain(0) + plain(10))
    data[-5] ^= 1
    directory.segment(0, bytes(data))
    with pytest.raises(ProtocolError, match="offset 10 of partition orders-0"):
        directory.read()


def test_segments_that_went_away_are_lost_data(directory: Directory) -> None:
    directory.segment(0, plain(0))
    given = batch_options({"path": str(directory.path), "subscribe": "orders"})
    (task,) = tasks_of(origin_of(given), {ORDERS: 0}, {ORDERS: 10}, given)
    (directory.path / "orders-0" / f"{0:020d}.log").rename(directory.path / "orders-0" / f"{5:020d}.log")
    with pytest.raises(DataLost, match="orders-0 no longer has offset 0"):
        list(read_from_segments(task))
