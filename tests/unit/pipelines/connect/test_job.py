"""A connector's job and reports, over the pipes between two processes."""

import os

import pytest

from millstream.pipelines.connect.job import Job, Place
from millstream.pipelines.connect.reports import Batch, Failed, Offsets, Report, Started, decode, encode

PLACE: Place = {"partition": {"filename": "a\nb"}, "offset": {"position": 12}}


def test_a_job_survives_its_line() -> None:
    job = Job("localhost:9092", {"name": "orders", "tasks.max": "3"}, "/data", 2, [PLACE], "connect-offsets")
    line = job.to_line()
    assert line.count(b"\n") == 1
    assert Job.from_line(line) == job
    assert job.tasks_max == 3


def test_generations_and_names_with_slashes_have_folders_of_their_own() -> None:
    def folder(name: str, generation: int) -> str:
        return Job("localhost:9092", {"name": name}, "/data", generation).folder

    assert len({folder("a/b", 0), folder("a/b", 1), folder("a", 0), folder("a%2Fb", 0)}) == 4
    assert all(os.path.dirname(os.path.dirname(folder(name, 0))) == "/data/connectors" for name in ("a/b", "..", "."))


@pytest.mark.parametrize(
    "report",
    [
        Started(3),
        Batch(7, 1000, 120, ("orders",), 12),
        Offsets((PLACE, {"partition": {"filename": "c"}, "offset": None})),
        Failed("the file is gone", "Traceback…\nFileNotFoundError: gone", is_final=False),
    ],
)
def test_a_report_survives_its_line(report: Report) -> None:
    line = encode(report)
    assert line.count(b"\n") == 1
    assert decode(line) == report
