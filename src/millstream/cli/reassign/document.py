"""Plans as Kafka's tools write and read them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.cli.failure import CommandFailed
from millstream.model.ids import TopicPartition

#: The only version there is.
VERSION = 1
#: A file's name that stands for standard input.
STANDARD_INPUT = "-"

Plan = dict[TopicPartition, list[int]]


def add_file_argument(parser: argparse.ArgumentParser, help_text: str = "the plan; - for standard input") -> None:
    """Let the command take a plan."""
    parser.add_argument("file", metavar="FILE", help=help_text)


def read_plan(name: str) -> Plan:
    """The plan in a file; CommandFailed when it is none."""
    text = sys.stdin.read() if name == STANDARD_INPUT else Path(name).read_text()
    try:
        document = json.loads(text)
        plan = _plan(document)
    except (ValueError, TypeError) as error:
        wanted = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
        raise CommandFailed(f"{name} holds no plan ({error}); one looks like {wanted}", exit_code=2) from None
    if not plan:
        raise CommandFailed(f"{name} names no partition", exit_code=2)
    return plan


def _plan(document: Any) -> Plan:
    version = _field(document, "version", "the document")
    if version != VERSION:
        raise ValueError(f"version {version} is not known")
    plan: Plan = {}
    for number, row in enumerate(_field(document, "partitions", "the document")):
        topic, partition, replicas = (
            _field(row, name, f"partitions[{number}]") for name in ("topic", "partition", "replicas")
        )
        key = TopicPartition(str(topic), int(partition))
        if key in plan:
            raise ValueError(f"{key} is named twice")
        if any(folder != "any" for folder in row.get("log_dirs", ())):
            raise ValueError(f"{key} names log directories, which only their broker chooses")
        plan[key] = [int(broker) for broker in replicas]
    return plan


def _field(document: Any, name: str, where: str) -> Any:
    if not isinstance(document, dict) or name not in document:
        raise ValueError(f"{where} has no {name!r}")
    return document[name]


def document_of(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """The same as Kafka's tools take it."""
    return {
        "version": VERSION,
        "partitions": [
            {"topic": key.topic, "partition": key.partition, "replicas": list(replicas)}
            for key, replicas in sorted(plan.items())
        ],
    }


def write_plan(name: str, plan: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Write the plan into a file."""
    Path(name).write_text(json.dumps(document_of(plan)) + "\n")
