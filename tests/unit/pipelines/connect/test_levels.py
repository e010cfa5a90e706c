"""Loggers, seen and changed by the names of log4j."""

import logging

from millstream.pipelines.connect.rest.levels import Levels


def levels_of(*names: str) -> tuple[Levels, logging.Manager]:
    manager = logging.Manager(logging.RootLogger(logging.WARNING))
    for name in names:
        manager.getLogger(name)
    return Levels(lambda: 17, manager), manager


def test_those_that_are_set_are_listed_and_those_that_are_there_are_shown() -> None:
    levels, manager = levels_of("a", "a.b")
    manager.getLogger("a").setLevel(logging.CRITICAL)
    assert levels.all() == {
        "a": {"level": "FATAL", "last_modified": None},
        "root": {"level": "WARN", "last_modified": None},
    }
    assert levels.of("a.b") == {"level": "FATAL", "last_modified": None}
    assert levels.of("a.b.c") is None


def test_a_level_is_that_of_all_below() -> None:
    levels, manager = levels_of("a", "a.b.c", "ab")
    assert levels.set("a", "DEBUG") == ["a", "a.b.c"]
    assert levels.of("a.b.c") == {"level": "DEBUG", "last_modified": 17}
    assert levels.of("ab") == {"level": "WARN", "last_modified": None}
    assert levels.set("new", "TRACE") == ["new"]
    assert manager.getLogger("new").isEnabledFor(5)
    assert levels.set("root", "OFF") == ["a", "a.b.c", "ab", "new", "root"]
    assert not manager.getLogger("a").isEnabledFor(logging.CRITICAL)
