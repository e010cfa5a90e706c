"""Ask topics in SQL: Spark's, with topics as tables.

millstream query "SELECT partition, count(*) FROM topic('orders') GROUP BY 1"

Values by a schema; two topics; only the last hour, of which no more is read:

millstream query "
  SELECT o.customer, sum(o.amount) AS total
  FROM topic('orders', schema => 'id INT, customer STRING, amount DOUBLE') o
  JOIN topic('vips', schema => 'name STRING') v ON v.name = o.customer
  WHERE o.timestamp >= now() - INTERVAL 1 HOUR GROUP BY 1"

As it was, and from a broker's files, without the broker:

millstream query "SELECT * FROM topic('orders') TIMESTAMP AS OF '2026-01-31'"
millstream query --path ./millstream-data "SELECT count(*) FROM topic('orders')"
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from millstream.cli.options import (
    ISOLATIONS,
    OUTPUTS,
    add_cluster_options,
    add_setting_option,
    bootstrap_of,
    not_negative,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from millstream.cli.watching import Watching
    from millstream.pipelines.history.query import Query

#: What ends it besides Ctrl-C.
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
DEFAULT_LIMIT = 1000
#: For a command that starts, answers and ends: no web pages, and one zone whatever the machine's.
CONF = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}
#: Java's second compiler takes as long as the rest of a short query, and pays only when there is much to do.
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
QUICK_OFFSETS = 1_000_000

ARGUMENTS_HELP = """topic('NAME', …) takes, by name:
  schema => 'id INT, …'    columns of the value; of the key: key => 'id INT'
  format => 'json'         json (default), avro, protobuf, csv, raw, text;
                           json without schema: value:field.field::type
  key_format => 'raw'      the same for the key
  errors => 'fail'         column: keep records that do not fit, see _error
  from_offset, to_offset   an offset, -N for N before the end, or
                           '{"0": 23}' by partition
  from_time, to_time       a time, -1h, or milliseconds
  isolation => 'read_committed'      headers => true
  disorder => '10m'        timestamps ascend but for so much: WHERE
                           timestamp < … then reads no further
behind it: TIMESTAMP AS OF 'TIME', VERSION AS OF OFFSETS"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ARGUMENTS_HELP
    parser.add_argument("sql", metavar="SQL", help="the query; - reads it from standard input")
    parser.add_argument("--path", metavar="DIR", help="read this log directory, and ask no broker")
    parser.add_argument(
        "-n",
        "--limit",
        type=not_negative,
        default=DEFAULT_LIMIT,
        metavar="N",
        help=f"print no more rows than this; 0: all (default: {DEFAULT_LIMIT})",
    )
    parser.add_argument(
        "-o", "--output", choices=(*OUTPUTS, "csv"), default="table", help="how to print (default: table)"
    )
    parser.add_argument(
        "--isolation",
        choices=sorted(ISOLATIONS),
        default="read_uncommitted",
        help="for topics that name none (default: read_uncommitted)",
    )
    add_setting_option(parser, "a setting of Spark's, such as spark.driver.memory=4g")
    add_cluster_options(parser)


def run(args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.watching import Watching

    sql = sys.stdin.read() if args.sql == "-" else args.sql
    try:
        with _ended_in_order(), Watching(lambda elapsed_s: "looking up the topics") as watching:
            return _answer(_prepared(sql, args), args, watching)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "pyarrow", "py4j", "pandas"):
            raise
        raise CommandFailed("a query needs Spark, which is not installed; pip install 'millstream[spark]'") from None


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Signals end the block as Ctrl-C does: Spark is stopped and its files are removed on the way out."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    heard = [number for number in ENDINGS if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores one.
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _prepared(sql: str, args: argparse.Namespace) -> Query:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.times import parse_moment_ms
    from millstream.pipelines.history.errors import QueryError
    from millstream.pipelines.history.query import prepare

    now_ms = time.time_ns() // 1_000_000
    options = {
        "kafka.isolation.level": args.isolation,
        "kafka.request.timeout.ms": str(round(args.timeout_s * 1000)),
        "groupIdPrefix": "millstream-query",
        **({"path": args.path} if args.path else {"kafka.bootstrap.servers": bootstrap_of(args)}),
    }
    try:
        return prepare(sql, options, lambda text: parse_moment_ms(text, now_ms))
    except QueryError as error:
        advice = "" if args.path else "; see what there is with: millstream topic list"
        raise CommandFailed(f"{error}{advice if 'there is no topic' in str(error) else ''}") from None


def _answer(query: Query, args: argparse.Namespace, watching: Watching) -> int:
    """Start Spark, let it answer, and print what it says."""
    import tempfile

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from millstream.cli.failure import CommandFailed
    from millstream.pipelines.history.complaints import complaint
    from millstream.pipelines.history.errors import QueryError
    from millstream.pipelines.spark.session import NoJava, quiet_spark

    settings = dict(args.settings)
    if settings.get("spark.master", "").startswith("sc://"):
        raise CommandFailed("a query starts a Spark of its own; spark.master may be local[*], spark://…, yarn, k8s://…")
    watching.line = lambda elapsed_s: f"starting Spark, {elapsed_s:.0f}s"
    with tempfile.TemporaryDirectory(prefix="millstream-query-") as folder, open(f"{folder}/log", "w+b") as log:
        tuned = {**CONF, **(QUICK if query.offsets <= QUICK_OFFSETS else {})}
        conf = {**tuned, "spark.sql.warehouse.dir": f"{folder}/warehouse", **settings}
        try:
            with quiet_spark(log, "millstream query", conf.pop("spark.master", "local[*]"), **conf) as spark:
                _print(spark, query, args, watching)
        except PySparkException as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise CommandFailed(complaint(str(error))) from None
            raise CommandFailed(f"Spark could not be started: {_first_words(log)}") from None
        except Py4JError as error:
            raise CommandFailed(complaint(str(error))) from None
        except (QueryError, NoJava) as error:
            raise CommandFailed(str(error)) from None
    return 0


def _first_words(log: IO[bytes]) -> str:
    """The first line of a log that is more than small talk."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return next((line for line in lines if not line.startswith(("WARNING:", "Using Spark's"))), "Java said nothing")


def _print(spark: SparkSession, query: Query, args: argparse.Namespace, watching: Watching) -> None:
    from millstream.cli.results import show_rows
    from millstream.pipelines.history.values import labels, plain_rows

    try:
        watching.line = lambda elapsed_s: _progress(spark, query.offsets, elapsed_s)
        answer = query.rows(spark)
        convert = plain_rows(answer.schema)
        rows = _Limited(_rows(answer, args.limit), args.limit)
        first = next(rows, None)
    finally:
        watching.end()  # Before rows are printed, and before nobody is left who could be asked.
    if answer.columns:  # A statement that only does something has none.
        show_rows(labels(answer.columns), map(convert, [] if first is None else rows.after(first)), args.output)
    if rows.is_cut:
        sys.stdout.flush()
        print(f"millstream: these are the first {args.limit} rows; -n N shows more, -n 0 all", file=sys.stderr)


def _rows(answer: DataFrame, limit: int) -> Iterator[Any]:
    """The rows, and one more than the limit to know whether there are more."""
    if limit:
        return iter(answer.limit(limit + 1).collect())
    return answer.toLocalIterator(prefetchPartitions=True)


class _Limited:
    """Rows up to a limit, 0 for none; knows afterwards whether there were more."""

    def __init__(self, rows: Iterator[Any], limit: int) -> None:
        self._rows = rows
        self._left = limit or -1
        self.is_cut = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        row = next(self._rows)
        if self._left == 0:
            self.is_cut = True
            raise StopIteration
        self._left -= 1
        return row

    def after(self, first: Any) -> Iterator[Any]:
        """All of them again, where the first was taken already."""
        yield first
        yield from self


def _progress(spark: SparkSession, offsets: int, elapsed_s: float) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [info for number in tracker.getActiveStageIds() if (info := tracker.getStageInfo(number)) is not None]
    done, tasks = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
    work = f"{done} of {tasks} tasks done" if tasks else "planning"
    return f"asking {offsets:,} records: {work}, {elapsed_s:.0f}s"
