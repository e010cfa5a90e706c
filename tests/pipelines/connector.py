"""Spark's own Kafka connector: its jars, fetched through Maven into the project's ``.cache`` folder, once."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "spark-kafka"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
#: These run together on PySpark 4.3; each is fetched alone, for what they depend on cannot all be resolved.
ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.13.1",
)
FETCH_TIMEOUT_S = 300


def connector_jars() -> str:
    """The jars as ``spark.jars`` takes them; FileNotFoundError or CalledProcessError where there is no way to them."""
    CACHE.mkdir(parents=True, exist_ok=True)
    done = CACHE / "done"
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for artifact in ARTIFACTS:
                subprocess.run(
                    ["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={CACHE}"],
                    check=True,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=FETCH_TIMEOUT_S,
                )
            done.touch()
    return ",".join(sorted(map(str, CACHE.glob("*.jar"))))


def jars_or_skip() -> str:
    """The jars, or a skipped test where Maven is not reachable; in CI that is a failure."""
    if shutil.which("mvn") is None and "CI" not in os.environ:
        pytest.skip("Spark's Kafka connector is fetched by Maven, which is not here")
    try:
        return connector_jars()
    except (OSError, subprocess.SubprocessError) as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"Spark's Kafka connector cannot be fetched: {error}")
