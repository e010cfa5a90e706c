"""What is committed runs on any machine: no hosts of package registries, no paths of one machine, no leftovers."""

import re
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, none, tracked

#: Spelled with a gap, or this file would be the first to break its own rules.
HOSTS = "pypi .org|pythonhosted .org|npmjs .org|npmjs .com|maven .org|repo1 .maven|artifact ory|--index -url"
FOLDERS = r"ro ot|wo rk|ho me/\w+|opt/wh eels"
FORBIDDEN = (
    re.compile(HOSTS.replace(" ", "").replace(".", r"\.")),
    re.compile(rf"(?<![\w.$}}])/(?:{FOLDERS.replace(' ', '')})(?=[/\"'`\s])"),
)
LARGE_BYTES = 512 * 1024


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=["hosts", "paths"])
def test_no_registry_host_and_no_machine_path_is_committed(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        for number, line in enumerate(_text(path).splitlines(), 1)
        if pattern.search(line)
    ]
    none(found)


def test_nothing_large_or_made_by_tools_is_committed() -> None:
    made = {"__pycache__", "node_modules", ".venv", ".cache", "dist", "build"}
    found = [
        path for path in tracked() if made & set(path.relative_to(ROOT).parts) or path.stat().st_size > LARGE_BYTES
    ]
    assert found == []


def test_the_lock_holds_a_hash_for_every_package() -> None:
    entries = re.split(r"\n(?=\w)", (ROOT / "requirements.lock").read_text())
    packages = [entry for entry in entries if "==" in entry]
    assert len(packages) > 20
    assert [entry.splitlines()[0] for entry in packages if "--hash=sha256:" not in entry] == []


def test_the_lock_satisfies_what_the_project_asks_for() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
        *project["build-system"]["requires"],
    ]
    names = {re.match(r"[\w.-]+", entry).group().lower().replace("_", "-") for entry in wanted}  # type: ignore[union-attr]
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names - locked == set()


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")
