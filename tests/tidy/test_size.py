"""No monster at the hub: files and functions stay small enough to read at a sitting."""

import ast
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, python_files

FILE_LINES_BELOW = 500
FUNCTION_LINES_BELOW = 60


@pytest.mark.parametrize("path", list(python_files()), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_and_its_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    assert lines < FILE_LINES_BELOW, f"{lines} lines"
    long = [
        f"{node.name} at line {node.lineno} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 >= FUNCTION_LINES_BELOW
    ]
    assert not long
