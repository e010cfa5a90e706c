"""The Java client, kafka-clients 4.3.0; ``../java/Driver.java`` answers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.compatibility import apache_kafka
from tests.compatibility.drivers.lines import LinesDriver

SOURCE = Path(__file__).parents[1] / "java" / "Driver.java"
CLASSES = apache_kafka.CACHE / "classes"


class JavaDriver(LinesDriver):
    name = "java"

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("java") is None:
            return "java is not installed"
        return None if (CLASSES / "Driver.class").exists() else "the Java driver is not compiled"

    @classmethod
    def command(cls, bootstrap: str) -> list[str]:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return ["java", *options, "-cp", apache_kafka.classpath(CLASSES), "Driver", bootstrap]

    def max_timestamp_offset(self, topic: str) -> int:
        return self.list_offset(topic, -3)

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        return int(self.ask("delete_records", topic=topic, partition=partition, before_offset=before_offset))

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        return {int(index): size for index, size in self.ask("describe_log_dirs", topic=topic).items()}

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        self.ask("alter_configs", topic=topic, configs=dict(changes))
