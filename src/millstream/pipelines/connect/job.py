"""What a connector's process is to run: handed over on its standard input, for a config may hold passwords.

``python -m millstream.pipelines.connect.process NAME REPORTS`` reads the job's line and reports on that descriptor
(``reports``); the name is for whoever looks at processes. It ends in good order, behind the batch under way, on SIGTERM
or when its standard input ends: because whoever started it says so, or is no more; and at once, where that is silent
for too long (``leash``).
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict
from urllib.parse import quote

#: What runs a job; the connector's name and the descriptor to report on come behind it.
COMMAND = (sys.executable, "-m", "millstream.pipelines.connect.process")


class Place(TypedDict):
    """How far a partition is, as Connect's REST API says it: for sinks ``kafka_topic``, ``kafka_partition`` and
    ``kafka_offset``, the first that was not taken yet; None where it stands before the beginning."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Job:
    """One connector, where its brokers and its progress are, and what Spark it runs on."""

    bootstrap: str
    #: The connector's config, the worker's own converters and the like beneath it; all strings.
    config: Mapping[str, str]
    #: A folder for the progress of all connectors.
    data: str
    #: Rises whenever offsets are altered, and when a connector is made under a name that was there before.
    generation: int = 0
    #: Where a new generation begins; sources begin what is not named at its beginning, sinks where their group is.
    offsets: list[Place] | None = None
    #: The compacted topic of a source's offsets, in Connect's format: they are written in the transactions of the
    #: records themselves, and by nobody else while it runs. Nowhere, where it is empty.
    offsets_topic: str = ""
    #: As many at a time as there are tasks, on this machine, where it is empty.
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    #: What the worker's settings say of config providers: variables are looked up by the process itself.
    providers: Mapping[str, str] = field(default_factory=dict)
    #: How long it may work without a word of its worker (``leash``); 0: for as long as its input is open.
    lease_s: float = 0.0
    #: The group of workers that the connector is of.
    group: str = "connect"

    @property
    def name(self) -> str:
        return self.config["name"]

    @property
    def home(self) -> str:
        """Where all generations are, and what a process holds while it works on any of them."""
        name = quote(self.name, safe=" ").replace(".", "%2E")  # Any name is one folder's, and no other's.
        return os.path.join(self.data, "connectors", name)

    @property
    def folder(self) -> str:
        """Where this generation keeps its progress."""
        return os.path.join(self.home, str(self.generation))

    @property
    def tasks_max(self) -> int:
        return int(self.config.get("tasks.max", "1"))

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> "Job":
        return Job(**json.loads(line))
