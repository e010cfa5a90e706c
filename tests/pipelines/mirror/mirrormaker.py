"""MirrorMaker 2 itself: its jars, fetched through Maven into the project's ``.cache`` folder, once, and its process."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.compatibility import apache_kafka

CACHE = Path(__file__).parents[3] / ".cache" / f"mirrormaker-{apache_kafka.VERSION}"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
#: What is missing beside the broker's own jars.
ARTIFACTS = ("org.apache.kafka:connect-mirror", "org.apache.kafka:connect-mirror-client")
FETCH_TIMEOUT_S = 300


def classpath() -> str:
    """Where Java finds MirrorMaker; OSError or SubprocessError where there is no way to its jars."""
    jars, done = CACHE / "jars", CACHE / "done"
    jars.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            for artifact in ARTIFACTS:
                wanted = f"-Dartifact={artifact}:{apache_kafka.VERSION}"
                subprocess.run(
                    ["mvn", "-q", "-B", COPY, wanted, f"-DoutputDirectory={jars}"],
                    check=True,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=FETCH_TIMEOUT_S,
                )
            done.touch()
    return os.pathsep.join([f"{jars}/*", apache_kafka.classpath()])


def classpath_or_skip() -> str:
    """The same, or a skipped test where Java or Maven are not here; in CI that is a failure."""
    if "CI" not in os.environ and ((reason := apache_kafka.missing()) or shutil.which("mvn") is None):
        pytest.skip(reason or "MirrorMaker is fetched by Maven, which is not here")
    try:
        return classpath()
    except (OSError, subprocess.SubprocessError) as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"MirrorMaker cannot be fetched: {error}")


def start(properties: Path, heap: str = "1g") -> "subprocess.Popen[bytes]":
    """MirrorMaker with a file of its properties, in a process of its own; what it says is beside the file."""
    with open(properties.with_suffix(".out"), "ab") as output:
        return subprocess.Popen(
            [
                *("java", f"-Xms{heap}", f"-Xmx{heap}", *apache_kafka.JVM_OPTIONS, "-cp", classpath()),
                *("org.apache.kafka.connect.mirror.MirrorMaker", str(properties)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def formatted(address: str, topic: str, formatter: str, count: int) -> list[str]:
    """The first records of one of its topics, as Kafka's console consumer prints them with MirrorMaker's formatter."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath()]
    command += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", topic]
    command += ["--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"]
    command += ["--formatter", f"org.apache.kafka.connect.mirror.formatters.{formatter}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    return [line for line in done.stdout.splitlines() if line.strip()]
