"""What is to be run and how, as the supervisor hands it to the process that runs it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from millstream.pipelines.running.definition import Definition, parse
from millstream.pipelines.running.failures import PipelineError

CHECKPOINTS_VARIABLE = "MILLSTREAM_CHECKPOINTS"
BOOTSTRAP_VARIABLE = "MILLSTREAM_BOOTSTRAP"
DEFAULT_CHECKPOINTS = "millstream-checkpoints"
DECLARED = (".yaml", ".yml")
SCRIPTED = (".py",)


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline's file, where its brokers and its progress are, and what Spark it runs on."""

    file: str
    name: str
    #: A folder, or a URL; each query of the pipeline has a folder in it.
    checkpoint: str
    bootstrap: str
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_declared(self) -> bool:
        return self.file.endswith(DECLARED)

    @property
    def is_local(self) -> bool:
        """Whether everything runs on this machine."""
        return self.master.startswith("local")

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> "Job":
        return Job(**json.loads(text))


def make_job(
    file: str,
    *,
    master: str,
    bootstrap: str | None,
    default_bootstrap: str,
    checkpoint: str | None,
    conf: Mapping[str, str],
) -> Job:
    """The job of a file: what is given goes first, then what the file says, then the defaults.

    PipelineError where the file is wrong in a way that shows without running it.
    """
    source = _read(file)
    name = os.path.splitext(os.path.basename(file))[0]
    declared: Definition | None = None
    if file.endswith(DECLARED):
        declared = parse(source, file)
        name = declared.whole.get("name", name)
    else:
        _compiles(source, file)
    stated = declared.whole.values if declared else {}
    folder = os.environ.get(CHECKPOINTS_VARIABLE) or DEFAULT_CHECKPOINTS
    return Job(
        file=file,
        name=name,
        checkpoint=_absolute(checkpoint or stated.get("checkpoint") or f"{folder}/{name}"),
        bootstrap=bootstrap or stated.get("bootstrap") or default_bootstrap,
        master=master,
        conf={**stated.get("conf", {}), **conf},
    )


def definition_of(job: Job) -> Definition:
    """The file of a declared job."""
    return parse(_read(job.file), job.file)


def _read(file: str) -> str:
    if not file.endswith(DECLARED + SCRIPTED):
        raise PipelineError(f"{file}: a pipeline is a .py or a .yaml file")
    try:
        with open(file, encoding="utf-8") as source:
            return source.read()
    except OSError as error:
        raise PipelineError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PipelineError(f"{file}: is not text in UTF-8") from None


def _compiles(source: str, file: str) -> None:
    try:
        compile(source, file, "exec")
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise PipelineError(f"{file}{line}: {error.msg if isinstance(error, SyntaxError) else error}") from None


def _absolute(place: str) -> str:
    """A folder's full path, for Spark's processes need not run where we do; a URL as it is."""
    return place if "://" in place else os.path.abspath(place)
