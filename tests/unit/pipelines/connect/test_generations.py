"""Generations of progress: no number twice, and nothing left of those before."""

from pathlib import Path

from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.runtime.generations import Generations
from millstream.pipelines.running.lock import held


def folder_of(data: Path, name: str, number: int) -> Path:
    return Path(Job(bootstrap="", config={"name": name}, data=str(data), generation=number).folder)


def test_a_generation_takes_the_place_of_those_before(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    assert generations.current("a/..", "X") is None
    assert generations.begin("a/..", "X", 1000) == 1000
    (folder_of(tmp_path, "a/..", 1000) / "kept").write_text("x")
    assert generations.current("a/..", "X") == 1000
    assert generations.begin("a/..", "X", 5000) == 5000
    assert generations.current("a/..", "X") == 5000
    assert not folder_of(tmp_path, "a/..", 1000).exists()
    assert folder_of(tmp_path, "a/..", 5000).is_dir()
    assert generations.current("a", "X") is None


def test_a_class_makes_nothing_of_another_s_progress_whoever_looks(tmp_path: Path) -> None:
    Generations(str(tmp_path)).begin("a", "FileSource", 1000)
    assert Generations(str(tmp_path)).current("a", "FileSource") == 1000
    assert Generations(str(tmp_path)).current("a", "JdbcSource") is None
    assert Generations(str(tmp_path)).begin("a", "JdbcSource", 900) == 1001, "no number twice"
    assert Generations(str(tmp_path)).current("a", "FileSource") is None


def test_what_a_process_holds_is_not_free(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    assert generations.is_free("a")
    generations.begin("a", "X", 1)
    with held(str(folder_of(tmp_path, "a", 1).parent)):
        assert not generations.is_free("a")
        assert generations.is_free("b")
    assert generations.is_free("a")


def test_a_number_is_new_though_the_clock_goes_back_or_stands(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    assert [generations.begin("a", "X", now_ms) for now_ms in (7000, 7000, 3000)] == [7000, 7001, 7002]


def test_nothing_is_left_of_what_is_forgotten(tmp_path: Path) -> None:
    generations = Generations(str(tmp_path))
    generations.begin("a", "X", 1)
    generations.begin("b", "X", 1)
    generations.forget("a")
    generations.forget("never")
    assert generations.current("a", "X") is None and generations.current("b", "X") == 1
