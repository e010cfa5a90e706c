"""No monster at the hub: files and functions stay small enough to read at a sitting."""

import ast

from tests.tidy.source import ROOT, none, parsed, python_files

FILE_LINES_BELOW = 500
FUNCTION_LINES_BELOW = 60


def test_files_stay_below_500_lines() -> None:
    none(
        [
            f"{path.relative_to(ROOT)} has {lines} lines"
            for path in python_files()
            if (lines := path.read_text().count("\n")) >= FILE_LINES_BELOW
        ]
    )


def test_functions_stay_below_60_lines() -> None:
    none(
        [
            f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {lines} lines"
            for path in python_files()
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) >= FUNCTION_LINES_BELOW
        ]
    )
