"""Rows of a query, printed."""

import csv
import io
import json

import pytest
import yaml

from millstream.cli.results import show_rows

COLUMNS = ["id", "tags", "name"]
ROWS: list[dict[str, object]] = [
    {"id": 1, "tags": ["a", "b"], "name": 'comma, "quote"\nnext'},
    {"id": 22, "tags": None, "name": "é"},
]


def printed(capsys: pytest.CaptureFixture[str], output: str, rows: list[dict[str, object]]) -> str:
    show_rows(COLUMNS, iter(rows), output)
    return capsys.readouterr().out


def test_a_table_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "table", ROWS).splitlines() == [
        "ID  TAGS        NAME",
        ' 1  ["a", "b"]  comma, "quote"\\nnext',
        "22  -           é",
    ]
    assert printed(capsys, "table", []) == "ID  TAGS  NAME\n"


def test_json_and_yaml_are_lists_that_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    for rows in (ROWS, ROWS[:1], []):
        text = printed(capsys, "json", rows)
        assert json.loads(text) == rows
        assert text == json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
        assert yaml.safe_load(printed(capsys, "yaml", rows)) == rows


def test_csv_has_a_heading_and_leaves_nulls_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(csv.reader(io.StringIO(printed(capsys, "csv", ROWS)))) == [
        ["id", "tags", "name"],
        ["1", '["a", "b"]', 'comma, "quote"\nnext'],
        ["22", "", "é"],
    ]
    assert printed(capsys, "csv", []) == "id,tags,name\n"
