"""The table of faults names tests that are there."""

import ast
import re

from tests.tidy.source import ROOT, none, parsed

TABLE = ROOT / "docs" / "faults.md"
FAULTS = 15
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[(\w+)\])?`")
ROW = re.compile(r"^\| (\d+)\. .* \| (.*) \|$", re.MULTILINE)


def _is_there(path: str, test: str, scenario: str) -> bool:
    file = ROOT / path
    if not file.exists() or (scenario and not (file.parent / f"{scenario}.txt").exists()):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == test for node in parsed(file).body)


def test_every_fault_has_tests_and_each_is_there() -> None:
    rows = ROW.findall(TABLE.read_text())
    assert [int(number) for number, _ in rows] == list(range(1, FAULTS + 1))
    none([f"{number} names none" for number, tests in rows if not NAMED.search(tests)])
    none(["::".join(named) for _, tests in rows for named in NAMED.findall(tests) if not _is_there(*named)])
