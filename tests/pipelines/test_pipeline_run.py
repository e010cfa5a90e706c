"""`millstream pipeline run`: a pipeline through its file, on real Spark, killed and told to stop."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.pipelines.running import declared, script
from millstream.pipelines.running.definition import parse
from millstream.pipelines.running.failures import PipelineError, diagnose
from millstream.pipelines.running.job import Job, definition_of
from tests.pipelines.records import records_of, values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

TIMEOUT_S = 120.0

#: Whichever test comes first waits for Spark.
pytestmark = pytest.mark.timeout(300)


class Command:
    """The command as a process of its own, with what it says and shows."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "millstream", "pipeline", "run", *arguments, "--metrics-port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert self.process.stderr is not None
        self._metrics = ""
        self._first = self.process.stderr.readline()
        found = re.search(r"metrics (\S+)$", self._first)
        if found:
            self._metrics = f"http://{found[1]}/metrics"

    def figure(self, name: str) -> float:
        """A metric's value now; -1 before it has any."""
        with urllib.request.urlopen(self._metrics) as page:
            found = re.search(rf"^millstream_pipeline_{name}{{.*}} (\S+)$", page.read().decode(), re.MULTILINE)
        return float(found[1]) if found else -1.0

    def wait_for(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline_s and self.process.poll() is None, self.end(signal.SIGKILL)
            time.sleep(0.05)

    @property
    def driver(self) -> int:
        """The process that the command supervises."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """The exit code and what was said, once it has ended; told to, if a signal is given."""
        if number is not None and self.process.poll() is None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, self._first + said


@contextmanager
def running(*arguments: str) -> Iterator[Command]:
    command = Command(*arguments)
    try:
        yield command
    finally:
        command.end(signal.SIGKILL)


@pytest.mark.long
def test_a_pipeline_goes_on_where_it_was_when_its_driver_is_killed(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.new(2), topics.new(2)
    for partition in (0, 1):
        topics.put(source, [b"%d" % number for number in range(partition, 1_500, 2)], partition)
    file = tmp_path / "evens.yaml"
    file.write_text(f"""
source: {{topic: {source}, format: raw, schema: value string, options: {{maxOffsetsPerTrigger: 100}}}}
sql: SELECT value FROM {source} WHERE CAST(value AS int) % 2 = 0
sink: {{topic: {target}, format: raw}}
""")
    arguments = ["-b", broker.address, "--checkpoint", str(tmp_path / "kept"), "--master", "local[2]"]
    arguments += ["-c", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    with running(str(file), *arguments) as command:
        command.wait_for(lambda: command.figure("batches_total") >= 3)
        os.kill(command.driver, signal.SIGKILL)
        command.wait_for(lambda: command.figure("restarts_total") == 1 and command.figure("up") == 1)
        command.wait_for(lambda: command.figure("lag_records") == 0)
        code, said = command.end(signal.SIGTERM)
    assert code == 0
    assert "evens: the pipeline's process was killed by SIGKILL; it is started again in " in said
    assert "evens: stopping behind the micro-batch under way" in said
    assert re.search(r"evens: [\d,]+ rows in, [\d,]+ out, \d+ batches in \d+ s, lag 0$", said.rstrip())
    assert values_of(broker.address, target) == sorted(b"%d" % number for number in range(0, 1_500, 2))


def test_what_no_further_try_would_mend_ends_it_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("source: {topic: a}\nsink: {topic: b}\ndelivry: exactly-once\n")
    with running(str(file)) as command:
        code, said = command.end()
    assert (code, said) == (1, f"millstream: {file}:3: delivry: unknown key; did you mean delivery?\n")


@pytest.fixture
def job(broker: BrokerProcess, tmp_path: Path) -> Job:
    return Job(file=str(tmp_path / "p.yaml"), name="p", checkpoint=str(tmp_path / "kept"), bootstrap=broker.address)


def test_a_declared_pipeline_joins_what_is_known_and_sets_aside_what_does_not_fit(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, job: Job
) -> None:
    orders, shops, placed, dead = (
        topics.new(name=f"declared-{name}") for name in ("orders", "shops", "placed", "dead")
    )
    topics.put(shops, [b'{"city": "Rome"}'], key=b"one")
    topics.put(orders, [b'{"id": 1, "shop": "one"}', b"broken", b'{"id": 2, "shop": "two"}'], key=b"ann")
    Path(job.file).write_text(f"""
source:
  - {{topic: {orders}, schema: "id long, shop string", key: customer string, errors: {dead}}}
  - {{topic: {shops}, as: shops, read: latest, key: shop string, schema: city string}}
sql: |
  SELECT customer, id, city FROM declared_orders LEFT JOIN shops USING (shop)
sink: {{topic: {placed}, key: customer}}
trigger: available-now
""")
    query = declared.start(definition_of(job), job, spark)
    assert query.name == "p"
    query.awaitTermination()
    found = sorted((each.key, each.value) for each in records_of(broker.address, placed))
    assert found == [(b"ann", b'{"id":1,"city":"Rome"}'), (b"ann", b'{"id":2}')]
    assert values_of(broker.address, dead) == [b"broken"]
    assert (Path(job.checkpoint) / "p" / "commits").is_dir()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sql: SELECT nothing FROM numbers", "p.yaml:2: sql: [UNRESOLVED_COLUMN.WITH_SUGGESTION] "),
        ("sql: SELEC 1", "p.yaml:2: sql: [PARSE_SYNTAX_ERROR] "),
        ("sql: SELECT 1 AS value", "p.yaml:2: sql: reads no source that is a stream"),
        ("sql: SELECT count(*) AS n FROM numbers", "p.yaml:3: sink.schema: [STREAMING_OUTPUT_MODE"),
        (
            "sql: SELECT value AS customer FROM numbers\nsink: {topic: x, key: customr}",
            "p.yaml:3: sink.key: no column customr; did you mean customer?",
        ),
    ],
)
def test_what_spark_refuses_of_a_declared_pipeline_is_told_by_line_and_key(
    spark: SparkSession, job: Job, text: str, message: str
) -> None:
    definition = parse(
        f"source: {{topic: numbers, start: earliest}}\n{text}\n"
        + ("" if "sink" in text else "sink: {topic: x, schema: n long}\n"),
        "p.yaml",
    )
    with pytest.raises(PipelineError) as caught:
        declared.start(definition, job, spark)
    assert str(caught.value).startswith(message)


SCRIPT = """
from pyspark.sql import functions as F

def shout(text):
    return text.upper()

def pipeline(spark):
    rows = spark.readStream.format("millstream").options(
        **{{"kafka.bootstrap.servers": "{address}"}}, subscribe="{source}", startingOffsets="earliest"
    ).load()
    louder = rows.select(F.udf(shout)(F.col("value").cast("string")).alias("value"))
    return (
        louder.writeStream.format("millstream").option("kafka.bootstrap.servers", "{address}")
        .option("topic", "{target}").queryName("louder").trigger(availableNow=True)
    )
"""


def test_a_script_s_functions_travel_to_workers_and_its_writers_are_started(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.new(), topics.new()
    topics.put(source, [b"a", b"b"])
    file = tmp_path / "shouting.py"
    file.write_text(SCRIPT.format(address=broker.address, source=source, target=target))
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "kept"))
    (query,) = script.start(str(file), spark)
    query.awaitTermination()
    assert values_of(broker.address, target) == [b"A", b"B"]
    assert (tmp_path / "kept" / "louder" / "commits").is_dir()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"no function `pipeline`; write: def pipeline\(spark\)"),
        ("def pipeline():\n    return 5", "`pipeline` returned int, where queries are wanted"),
        ("def pipeline():\n    import nowhere", "s.py:2: ModuleNotFoundError: No module named 'nowhere'"),
        (
            "def pipeline(spark):\n    return [spark.readStream.format('rate').load().writeStream.format('noop')"
            ".option('checkpointLocation', '{folder}/c').start()]",
            "a query without a name would not find its checkpoint again",
        ),
    ],
)
def test_a_script_that_cannot_be_run_says_so(spark: SparkSession, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "s.py"
    file.write_text(text.replace("{folder}", str(tmp_path)))
    with pytest.raises(Exception) as caught:
        script.start(str(file), spark)
    for query in spark.streams.active:
        query.stop()
    diagnosis = diagnose(caught.value, file=str(file), is_building=True)
    assert re.search(message, diagnosis.message) and diagnosis.is_final


WRONG_ROWS = """
source: {{topic: {topic}, schema: id long}}
sql: {sql}
sink: {{topic: {target}, format: raw}}
trigger: available-now
"""


@pytest.mark.parametrize(
    ("sql", "value", "message", "is_final"),
    [
        (
            "SELECT 'x' AS value FROM {topic}",
            b"broken",
            "a record of topic .*, partition 0, offset 0 does not fit",
            True,
        ),
        ("SELECT broken(id) AS value FROM {topic}", b'{"id": 1}', "^KeyError: 1$", False),
    ],
)
def test_a_query_that_fails_is_told_in_a_line_and_judged(
    spark: SparkSession, topics: Topics, job: Job, sql: str, value: bytes, message: str, is_final: bool
) -> None:
    topic, target = topics.new(), topics.new()
    topics.put(topic, [value])
    Path(job.file).write_text(WRONG_ROWS.format(topic=topic, target=target, sql=sql.format(topic=topic)))
    spark.udf.register("broken", lambda number: {}[number])
    query = declared.start(definition_of(job), job, spark)
    with pytest.raises(Exception) as caught:
        query.awaitTermination()
    diagnosis = diagnose(caught.value)
    assert re.search(message, diagnosis.message) and "\n" not in diagnosis.message
    assert diagnosis.is_final == is_final


COUNTS = """
source: {{topic: {topic}, schema: id long}}
sql: SELECT {columns} FROM {topic} GROUP BY {key}
sink: {{topic: {target}, mode: update, key: k}}
trigger: available-now
"""


def test_a_checkpoint_of_another_query_is_named_and_ends_it(
    spark: SparkSession, topics: Topics, job: Job, tmp_path: Path
) -> None:
    topic, target = topics.new(), topics.new()
    topics.put(topic, [b'{"id": 1}'])

    def run(columns: str, key: str) -> None:
        text = COUNTS.format(topic=topic, target=target, columns=columns, key=key)
        Path(job.file).write_text(text)
        declared.start(definition_of(job), job, spark).awaitTermination()

    run("string(id) AS k, count(*) AS n", "id")
    topics.put(topic, [b'{"id": 2}', b'{"id": 1}'])
    run("string(id) AS k, count(*) AS n", "id")  # Its own: it goes on, and each change is told once.
    told = sorted((each.key, each.value) for each in records_of(topics.address, target))
    assert told == [(b"1", b'{"n":1}'), (b"1", b'{"n":2}'), (b"2", b'{"n":1}')]
    topics.put(topic, [b'{"id": 2}'])
    for columns, key in (("string(id) AS k, count(*) AS n", "string(id)"), ("string(id) AS k, avg(id) AS n", "id")):
        with pytest.raises(Exception) as caught:
            run(columns, key)
        diagnosis = diagnose(caught.value, checkpoint=job.checkpoint)
        assert diagnosis.message.startswith(f"checkpoint={tmp_path}/kept: it is another query's: [STATE_STORE_")
        assert diagnosis.is_final


@pytest.mark.long
def test_the_command_ends_over_a_checkpoint_of_another_source(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic, target = topics.new(), topics.new()
    topics.put(topic, [b"a"])
    file, kept = tmp_path / "copy.yaml", tmp_path / "kept"
    file.write_text(f"source: {{topic: {topic}}}\nsink: {{topic: {target}, format: raw}}\ntrigger: available-now\n")
    arguments = [str(file), "-b", broker.address, "--checkpoint", str(kept), "--master", "local[2]"]
    with running(*arguments) as command:
        assert command.end()[0] == 0
    (offsets,) = (kept / "copy" / "offsets").glob("0")
    offsets.write_text(offsets.read_text().replace(f'{{"{topic}": {{"0": 1}}}}', '{"offset": 5}'))
    (kept / "copy" / "offsets" / ".0.crc").unlink(missing_ok=True)
    topics.put(topic, [b"b"])
    with running(*arguments) as command:
        code, said = command.end()
    assert code == 1
    assert f"checkpoint={kept}: it is another query's: checkpointLocation: its offsets {{'offset': 5}}" in said
    assert values_of(broker.address, target) == [b"a"]
