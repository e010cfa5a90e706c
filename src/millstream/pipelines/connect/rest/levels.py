"""What each logger says, in the words of Connect's API."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

ROOT = "root"
#: Levels that may be asked for, as those who know log4j call them.
LEVELS = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
_NAMES = {number: name for name, number in LEVELS.items()}


class Levels:
    """The loggers of this process, and when somebody last changed them."""

    def __init__(self, now_ms: Callable[[], int], manager: logging.Manager = logging.root.manager) -> None:
        self._now_ms = now_ms
        self._manager = manager
        self._changed_ms: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """Those whose level is set, by name."""
        found = {name: it for name, it in self._loggers() if it.level != logging.NOTSET}
        return {name: self._shown(name, it) for name, it in sorted({**found, ROOT: self._manager.root}.items())}

    def of(self, name: str) -> dict[str, Any] | None:
        """A logger's level, or what it has from those above it; None when there is no such logger."""
        known = dict(self._loggers()) | {ROOT: self._manager.root}
        return self._shown(name, known[name]) if name in known else None

    def set(self, name: str, level: str) -> list[str]:
        """Give a logger and all below it a level; the names of those."""
        if name != ROOT:
            self._manager.getLogger(name)
        concerned = {
            other: it for other, it in self._loggers() if name == ROOT or other == name or other.startswith(f"{name}.")
        }
        if name == ROOT:
            concerned[ROOT] = self._manager.root
        changed = [other for other, it in concerned.items() if it.getEffectiveLevel() != LEVELS[level]]
        for other in changed:
            concerned[other].setLevel(LEVELS[level])
            self._changed_ms[other] = self._now_ms()
        return sorted(concerned)

    def _loggers(self) -> Iterable[tuple[str, logging.Logger]]:
        found = list(self._manager.loggerDict.items())
        return ((name, it) for name, it in found if isinstance(it, logging.Logger))

    def _shown(self, name: str, it: logging.Logger) -> dict[str, Any]:
        number = it.getEffectiveLevel()
        return {"level": _NAMES.get(number, logging.getLevelName(number)), "last_modified": self._changed_ms.get(name)}
