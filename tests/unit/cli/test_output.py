"""Tables, and the same as JSON and YAML."""

import json

import pytest
import yaml

from millstream.cli.output import cell, show, table

ROWS = [
    {"name": "orders", "partitions": 12, "in_sync": [1, 2], "leader": None, "ok": True},
    {"name": "a", "partitions": 3, "in_sync": [], "leader": 7, "ok": False},
]


def test_a_table_is_aligned_with_numbers_to_the_right() -> None:
    assert table(ROWS).splitlines() == [
        "NAME    PARTITIONS  IN-SYNC  LEADER  OK",
        "orders          12  1,2           -  yes",
        "a                3                7  no",
    ]


def test_only_the_columns_asked_for_are_shown() -> None:
    assert table(ROWS, ("leader", "name")).splitlines() == ["LEADER  NAME", "     -  orders", "     7  a"]


def test_no_rows_leave_the_headings() -> None:
    assert table([], ("name", "value")) == "NAME  VALUE"
    assert table([]) == ""


def test_what_would_steer_a_terminal_is_shown_as_it_is_written() -> None:
    assert cell("café \x1b[2J\x00") == r"café \x1b[2J\x00"


def test_json_and_yaml_hold_everything(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, "json", ("name",))
    assert json.loads(capsys.readouterr().out) == ROWS
    show(ROWS, "yaml", ("name",))
    assert yaml.safe_load(capsys.readouterr().out) == ROWS
