"""Dead letters into their topic: with the batch, once, or at once where the connector ends over them."""

from collections.abc import Sequence

from millstream.client.admin import NewTopic, Outcome, create_topics
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.letters import Raw
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.settings import LETTERS_REPLICATION_FACTOR, LETTERS_TOPIC
from millstream.pipelines.connect.spark.rows import COLUMNS, chunks
from millstream.pipelines.spark.sink.options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions, sink_options
from millstream.pipelines.spark.sink.process import SinkProcess, sink_process
from millstream.pipelines.spark.sink.protocol import Transaction
from millstream.pipelines.spark.sink.tasks import Layout, write_rows

_LAYOUT = Layout({name: place for place, name in enumerate(COLUMNS.names)})


def options_of(job: Job, delivery: str = EXACTLY_ONCE) -> SinkOptions:
    """How a connector writes to topics beside its query."""
    return sink_options({"kafka.bootstrap.servers": job.bootstrap, "delivery": delivery})


def ensure_topic(here: SinkProcess, config: Config) -> None:
    """Make the topic of dead letters, if the config names one that is not there; Misconfigured when it cannot be."""
    name = config[LETTERS_TOPIC].strip()
    if not name:
        return
    cluster = here.coordinators.cluster
    try:
        here.run(cluster.topic(name, is_new=False))
        return
    except ProtocolError as refusal:
        if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    new = NewTopic(name, partitions=1, replicas=config[LETTERS_REPLICATION_FACTOR])
    [outcome] = here.run(create_topics(cluster, [new]))
    if outcome.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise _refusal(outcome, new)


def _refusal(outcome: Outcome, new: NewTopic) -> Misconfigured:
    """Why the topic of dead letters cannot be made, by the option to blame."""
    why = outcome.detail or outcome.code.name
    if outcome.code is ErrorCode.INVALID_REPLICATION_FACTOR:
        return Misconfigured(
            f"{LETTERS_REPLICATION_FACTOR.name}={new.replicas}: topic {new.name!r} cannot be made: {why}; set it to no "
            "more than there are brokers, 1 for a single one"
        )
    return Misconfigured(f"{LETTERS_TOPIC.name}={new.name}: the topic cannot be made: {why}")


def write_letters(job: Job, letters: Sequence[Raw], batch: Batch, task: int) -> Transaction | None:
    """Write them in a transaction that is left open, for whoever commits the batch."""
    return _write(job, letters, batch, task, EXACTLY_ONCE)


def send_letters(job: Job, letters: Sequence[Raw]) -> None:
    """Write them for good, now: the batch that they are of will not be committed."""
    _write(job, letters, Batch("", 0), 0, AT_LEAST_ONCE)


def _write(job: Job, letters: Sequence[Raw], batch: Batch, task: int, delivery: str) -> Transaction | None:
    if not letters:
        return None
    options = options_of(job, delivery)
    here, rows = sink_process(options), chunks(letters)
    return write_rows(here, options, _LAYOUT, batch.query, batch.number, rows, task, True).transaction
