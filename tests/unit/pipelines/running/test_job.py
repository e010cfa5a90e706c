"""What is run, from the command line, the file and the defaults; and one supervisor to a checkpoint."""

import os
from pathlib import Path
from typing import Any

import pytest

from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.job import Job, make_job
from millstream.pipelines.running.lock import held

YAML = "name: n\nbootstrap: file:1\ncheckpoint: /c\nsource: {topic: a}\nsink: {topic: b}\nconf: {a: file, b: file}\n"


def job_of(file: Path, **given: object) -> Job:
    chosen: dict[str, Any] = {"bootstrap": None, "checkpoint": None, "conf": {}, **given}
    return make_job(str(file), master="local[2]", default_bootstrap="default:1", **chosen)


def test_what_is_given_goes_before_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(YAML)
    job = job_of(file)
    assert (job.name, job.bootstrap, job.checkpoint, job.conf) == ("n", "file:1", "/c", {"a": "file", "b": "file"})
    job = job_of(file, bootstrap="given:1", checkpoint="s3a://here", conf={"b": "given"})
    assert (job.bootstrap, job.checkpoint, job.conf) == ("given:1", "s3a://here", {"a": "file", "b": "given"})
    assert Job.from_text(job.to_text()) == job


def test_progress_is_kept_by_the_file_s_name_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.py"
    file.write_text("def pipeline(spark): ...")
    monkeypatch.delenv("MILLSTREAM_CHECKPOINTS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert job_of(file).checkpoint == f"{os.getcwd()}/millstream-checkpoints/orders"
    monkeypatch.setenv("MILLSTREAM_CHECKPOINTS", "/kept")
    assert job_of(file).checkpoint == "/kept/orders"
    assert job_of(file).bootstrap == "default:1"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.py", "def f(:\n", "a.py:1: invalid syntax"),
        ("a.txt", "", "a.txt: a pipeline is a .py or a .yaml file"),
        ("a.yml", "sink: 1", "a.yml:1: sink: must be a mapping with topic"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(PipelineError) as caught:
        job_of(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / message))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.py: No such file"):
        job_of(tmp_path / "none.py")


def test_a_checkpoint_is_held_by_one(tmp_path: Path) -> None:
    with held(str(tmp_path)), pytest.raises(PipelineError, match=f"process {os.getpid()} runs this pipeline already"):
        held(str(tmp_path)).__enter__()
    with held(str(tmp_path)), held("s3a://elsewhere"):
        pass


def test_a_checkpoint_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"--checkpoint .*file/x: Not a directory"):
        held(str(tmp_path / "file" / "x")).__enter__()
