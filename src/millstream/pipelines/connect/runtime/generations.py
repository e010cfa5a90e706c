"""Which generation of its progress a connector is in: a folder for each, whose number no other ever had.

Sinks recognise a batch that comes again by generation and number, so a number that two lives of a name shared would
hide the batches of the second.  Numbers are therefore the clock's milliseconds: they are new even where the
folder of all progress, or the connector, was deleted in between.
"""

import os
import shutil

from millstream.pipelines.connect.job import Job
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.lock import held

#: In a generation's folder: the class of the connector whose progress it is.
CLASS_FILE = "class"


class Generations:
    """The generations of all connectors below one folder."""

    def __init__(self, data: str) -> None:
        self._data = data

    def current(self, name: str, kind: str) -> int | None:
        """The one that a connector is in; None where there is nothing of it, or only of one of another class."""
        number = max(self._all(name), default=None)
        return number if number is not None and self._kind(name, number) in (kind, None) else None

    def begin(self, name: str, kind: str, now_ms: int) -> int:
        """A new one, without anything of those before."""
        before = self._all(name)
        number = max(now_ms, *(each + 1 for each in before), 0)
        folder = self._folder(name, number)
        # What is there counts, so it is there at once and with its class.
        os.makedirs(f"{folder}.new", exist_ok=True)
        with open(os.path.join(f"{folder}.new", CLASS_FILE), "w", encoding="utf-8") as file:
            file.write(kind)
        os.rename(f"{folder}.new", folder)
        for each in before:
            shutil.rmtree(self._folder(name, each), ignore_errors=True)
        return number

    def forget(self, name: str) -> None:
        """Leave nothing of a connector."""
        shutil.rmtree(self._home(name), ignore_errors=True)

    def is_free(self, name: str) -> bool:
        """Whether no process works on a connector's progress, not even one that outlived its worker."""
        if not os.path.exists(self._home(name)):
            return True
        try:
            with held(self._home(name)):
                return True
        except PipelineError:
            return False

    def _all(self, name: str) -> list[int]:
        try:
            found = os.listdir(self._home(name))
        except FileNotFoundError:
            return []
        return [int(each) for each in found if each.isdecimal()]

    def _kind(self, name: str, number: int) -> str | None:
        try:
            with open(os.path.join(self._folder(name, number), CLASS_FILE), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _folder(self, name: str, number: int) -> str:
        return self._job(name, number).folder

    def _home(self, name: str) -> str:
        return self._job(name, 0).home

    def _job(self, name: str, number: int) -> Job:
        return Job(bootstrap="", config={"name": name}, data=self._data, generation=number)
