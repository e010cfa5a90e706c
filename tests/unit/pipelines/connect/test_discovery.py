"""A user's own connectors, found in folders."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.discovery import discovered
from millstream.pipelines.connect.errors import Misconfigured

DAYS = """
from millstream.pipelines.connect.base import Sink, Source

class FoundDays(Source):
    version = "3.1"

class _Hidden(Sink):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _written(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_connectors_of_modules_and_packages_are_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _written(folder, "found_days.py", DAYS)
    _written(folder, "found_pack/__init__.py", "")
    _written(folder, "found_pack/counts.py", "from found_days import FoundDays\n" + DAYS.replace("FoundDays", "Other"))
    monkeypatch.setattr(plugins, "FOUND", discovered([str(folder)]))
    own = [
        {"class": name, "type": "source", "version": "3.1"}
        for name in ("found_days.FoundDays", "found_pack.counts.Other")
    ]
    assert plugins.listed()[-2:] == own
    with pytest.raises(
        Misconfigured, match=r"available connectors are: .*FileSink, .*, found_days\.FoundDays, found_pack"
    ):
        plugins.connector("FoundDays")
    assert plugins.connector("found_days.FoundDays").__name__ == "FoundDays"


@pytest.mark.parametrize("fault", ["import no_such_library", "def", "raise SystemExit(1)"])
def test_a_module_that_cannot_be_imported_is_told_of_and_disturbs_no_other(
    folder: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    _written(folder, "found_broken.py", f"import millstream.pipelines.connect\n{fault}\n")
    _written(folder, "found_days.py", DAYS)
    with caplog.at_level(logging.WARNING):
        assert [plugin.name for plugin in discovered([str(folder)])] == ["found_days.FoundDays"]
    [line] = caplog.messages
    assert line.startswith(f"the connectors of {folder / 'found_broken.py'} are not listed: ")


def test_modules_that_have_nothing_to_do_with_connectors_are_not_run(folder: Path) -> None:
    _written(folder, "found_script.py", "raise AssertionError\n")
    _written(folder, "no-module.py", "import millstream.pipelines.connect\nraise AssertionError\n")
    assert discovered([str(folder)]) == []
    assert "found_script" not in sys.modules
