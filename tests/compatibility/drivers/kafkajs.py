"""kafkajs on Node.js; ``../kafkajs/driver.js`` answers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.compatibility.drivers.lines import LinesDriver

FOLDER = Path(__file__).parents[1] / "kafkajs"


class KafkaJsDriver(LinesDriver):
    name = "kafkajs"

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("node") is None:
            return "node is not installed"
        return None if (FOLDER / "node_modules" / "kafkajs").exists() else "kafkajs is not installed"

    @classmethod
    def command(cls, bootstrap: str) -> list[str]:
        return ["node", "--no-warnings", str(FOLDER / "driver.js"), bootstrap]

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        self.ask("delete_records", topic=topic, partition=partition, before_offset=before_offset)
        return self.list_offset(topic, -2, partition=partition)  # The client does not pass the answer on.

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self.ask("replace_configs", topic=topic, configs=dict(configs))
