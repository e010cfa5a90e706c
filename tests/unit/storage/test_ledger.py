"""What is written down of each log beside it, and of whom it must not be taken for the truth."""

import asyncio
from pathlib import Path
from typing import Any

from millstream.model.ids import TopicPartition
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    DEFAULTS,
    OS,
    TOPIC_ID,
    TP,
    Here,
    append,
    batch,
    made,
    offsets,
    open_logs,
    read_all,
)


def tp(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def test_checkpoints_are_written_and_read(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    for partition in range(2):
        append(logs.create(tp(partition), TOPIC_ID, DEFAULTS), batch(9))
    made(logs, tp(0)).advance_start(4)
    marks = {tp(0): 9, tp(1): 7}
    logs.checkpoint(marks)
    assert logs.read_high_watermarks() == marks
    assert (tmp_path / "a" / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 4\n"
    assert (tmp_path / "b" / "replication-offset-checkpoint").read_text() == "0\n1\norders 1 7\n"
    asyncio.run(logs.checkpoint_async({tp(0): 8}, Here()))
    assert logs.read_high_watermarks()[tp(0)] == 8


def test_a_state_is_never_replaced_by_an_older_one(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    (directory,) = logs.directories
    directory.write_offsets("x", {tp(0): 2}, 5)
    directory.write_offsets("x", {tp(0): 1}, 4)
    assert (tmp_path / "x").read_text() == "0\n1\norders 0 2\n"


def test_a_log_made_anew_starts_at_its_own_start_whatever_was_noted_of_the_one_before(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    append(made(logs), batch(10))
    append(made(logs, tp(1)), batch(4))
    made(logs).flush()
    made(logs).advance_start(5)
    logs.checkpoint({tp(0): 10, tp(1): 4})
    logs.delete(tp(0))
    append(made(logs), batch(3))
    assert logs.read_high_watermarks() == {tp(1): 4}
    for directory in logs.directories:
        directory.unlock()
    log = made(open_logs(OS, str(tmp_path)))
    assert (log.start_offset, log.end_offset, offsets(read_all(log))) == (0, 3, [0, 1, 2])


def test_a_partition_that_a_life_before_noted_is_made_anew_without_it() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a")
    append(made(logs), batch(10))
    made(logs).advance_start(5)
    logs.checkpoint({TP: 10})
    logs.delete(TP)
    files.kill()
    append(made(open_logs(files, "/a")), batch(3))
    files.kill()
    log = made(open_logs(files, "/a"))
    assert (log.start_offset, log.end_offset) == (0, 3)


def test_a_state_on_its_way_to_the_disk_does_not_bring_the_log_before_back() -> None:
    """The thread that writes it is late: the log is made anew meanwhile."""

    class Late(Here):
        async def in_thread(self, function: Any, *args: Any) -> Any:
            if logs.get(TP) is first:
                logs.delete(TP)
                append(made(logs), batch(3))
            return function(*args)

    files = MemoryFiles()
    logs = open_logs(files, "/a")
    first = made(logs)
    append(first, batch(10))
    first.advance_start(5)
    asyncio.run(logs.checkpoint_async({TP: 10}, Late()))
    files.kill()
    log = made(logs := open_logs(files, "/a"))
    assert (log.start_offset, log.end_offset, logs.read_high_watermarks()) == (0, 3, {})


def test_new_logs_wait_for_the_disk_only_where_they_were_named_and_all_of_them_once() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a")
    for partition in range(20):
        made(logs, tp(partition))
    replaced = files.fail("replace", 0, "/a/*-checkpoint", after=1 << 30)
    for partition in range(20, 40):
        made(logs, tp(partition))
    assert replaced.after == 1 << 30
    logs.checkpoint({})
    before = replaced.after
    for partition in range(40):
        logs.delete(tp(partition))
    for partition in range(40):
        made(logs, tp(partition))
    assert before - replaced.after == 3
