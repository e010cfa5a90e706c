"""Generations of progress: no number twice, and nothing left of those before."""

from pathlib import Path

from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.runtime.generations import Generations


def folder_of(data: Path, name: str, number: int) -> Path:
    return Path(Job(bootstrap="", config={"name": name}, data=str(data), generation=number).folder)


def test_a_generation_takes_the_place_of_those_before(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    assert generations.current("a/..") is None
    assert generations.begin("a/..", 1000) == 1000
    (folder_of(tmp_path, "a/..", 1000) / "kept").write_text("x")
    assert generations.current("a/..") == 1000
    assert generations.begin("a/..", 5000) == 5000
    assert generations.current("a/..") == 5000
    assert not folder_of(tmp_path, "a/..", 1000).exists()
    assert folder_of(tmp_path, "a/..", 5000).is_dir()
    assert generations.current("a") is None


def test_a_number_is_new_though_the_clock_goes_back_or_stands(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    assert [generations.begin("a", now_ms) for now_ms in (7000, 7000, 3000)] == [7000, 7001, 7002]


def test_nothing_is_left_of_what_is_forgotten(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    generations.begin("a", 1)
    generations.begin("b", 1)
    generations.forget("a")
    generations.forget("never")
    assert generations.current("a") is None and generations.current("b") == 1
