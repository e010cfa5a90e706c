"""Which tables a config means."""

import pytest

from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.sources.postgres.options import OPTIONS, Choice

GIVEN = {"name": "x", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "p"}


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ({}, ["public.a", "public.ab", "other.a"]),
        ({"table.include.list": r"public\.a"}, ["public.a"]),
        ({"table.include.list": r"PUBLIC\.A.*, other\..*"}, ["public.a", "public.ab", "other.a"]),
        ({"table.exclude.list": r".*\.a"}, ["public.ab"]),
        ({"schema.include.list": "other"}, ["other.a"]),
        ({"schema.exclude.list": "oth.*"}, ["public.a", "public.ab"]),
    ],
)
def test_tables_are_chosen_by_whole_names(said: dict[str, str], chosen: list[str]) -> None:
    config, errors = parse(OPTIONS, {**GIVEN, **said})
    assert not errors
    choice = Choice(config)
    names = ["public.a", "public.ab", "other.a"]
    assert [name for name in names if choice.has(*name.split("."))] == chosen
