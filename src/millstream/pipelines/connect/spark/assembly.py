"""A connector's parts, built of its job wherever they are needed: in the driver, and in Spark's workers."""

import logging
import select
from urllib.parse import quote

from millstream.model.clock import SystemClock
from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Connector, Sink, Source
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.options import Config, parse
from millstream.pipelines.connect.settings import CONNECTOR_CLASS, SINK, SOURCE
from millstream.pipelines.connect.tolerance import Surroundings

_log = logging.getLogger("millstream.connect")
#: The option that carries a job to workers: Spark does not show what is called so when it prints its plans.
JOB_OPTION = "secret"


def class_of(job: Job) -> type[Source] | type[Sink]:
    """What the connector is; Misconfigured when there is no such class."""
    name = job.config.get(CONNECTOR_CLASS.name)
    if name is None:
        raise Misconfigured(f"{CONNECTOR_CLASS.name} is missing")
    return plugins.connector(name)


def source_of(job: Job) -> Source:
    """The source, connected to nothing yet."""
    found = class_of(job)
    assert issubclass(found, Source)
    return found(config_of(job, found))


def sink_of(job: Job) -> Sink:
    """The sink, connected to nothing yet."""
    found = class_of(job)
    assert issubclass(found, Sink)
    return found(config_of(job, found))


def config_of(job: Job, kind: type[Connector]) -> Config:
    """What the config says to a connector of this kind; Misconfigured when that cannot be."""
    config, errors = parse((*(SINK if issubclass(kind, Sink) else SOURCE), *kind.options), job.config)
    if errors:
        raise Misconfigured("; ".join(words for several in errors.values() for words in several))
    return config


def surroundings() -> Surroundings:
    """The world, as it is for what runs in a worker."""
    return Surroundings(SystemClock(), _rest, lambda line, error: _log.error(line, exc_info=error))


def _rest(seconds: float) -> None:
    select.select([], [], [], seconds)


def group_prefix(group: str) -> str:
    """How the names of all queries of a group of workers begin: others may have connectors of the same names."""
    return f"connect/{quote(group, safe='')}/"


def queries_prefix(group: str, name: str) -> str:
    """How the names of all queries of a connector begin, whatever their generation."""
    return f"{group_prefix(group)}{quote(name, safe='')}/"


def query_of(job: Job, checkpoint: str) -> str:
    """Who writes: a generation of a connector that has a checkpoint with this id."""
    return f"{queries_prefix(job.group, job.name)}{job.generation}/{checkpoint}"
