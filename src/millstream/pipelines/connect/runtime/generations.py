"""Which generation of its progress a connector is in: a folder for each, whose number no other ever had.

Sinks recognise a batch that comes again by generation and number, so a number that two lives of a name shared would
hide the batches of the second.  Numbers are therefore the clock's milliseconds: they are new even where the
folder of all progress, or the connector, was deleted in between.
"""

import os
import shutil

from millstream.pipelines.connect.job import Job


class Generations:
    """The generations of all connectors below one folder."""

    def __init__(self, data: str) -> None:
        self._data = data

    def current(self, name: str) -> int | None:
        """The one that a connector is in; None where there is nothing of it."""
        return max(self._all(name), default=None)

    def begin(self, name: str, now_ms: int) -> int:
        """A new one, without anything of those before."""
        before = self._all(name)
        number = max(now_ms, *(each + 1 for each in before), 0)
        os.makedirs(self._folder(name, number))
        for each in before:
            shutil.rmtree(self._folder(name, each), ignore_errors=True)
        return number

    def forget(self, name: str) -> None:
        """Leave nothing of a connector."""
        shutil.rmtree(os.path.dirname(self._folder(name, 0)), ignore_errors=True)

    def _all(self, name: str) -> list[int]:
        try:
            found = os.listdir(os.path.dirname(self._folder(name, 0)))
        except FileNotFoundError:
            return []
        return [int(each) for each in found if each.isdecimal()]

    def _folder(self, name: str, number: int) -> str:
        return Job(bootstrap="", config={"name": name}, data=self._data, generation=number).folder
