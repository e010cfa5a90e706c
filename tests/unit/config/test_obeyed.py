"""A setting that is shown is obeyed: someone reads it."""

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import millstream
from millstream.config import broker, cluster, groups, log, network, replication, topic, transactions, zookeeper
from millstream.config.setting import Setting

PACKAGE = Path(millstream.__file__).parent
#: Has one value only, which the check says.
FIXED = {"log.preallocate", "preallocate"}


def readers() -> str:
    """All source but the tables themselves."""
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "config")
    for module in (broker, topic):
        source = Path(str(module.__file__)).read_text()
        functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
        text += "".join(ast.get_source_segment(source, node) or "" for node in functions)
    return text


def test_every_setting_is_read_by_someone() -> None:
    text = readers()
    read: set[str] = set(FIXED)

    def add(setting: Setting[Any]) -> None:
        read.update(fallback.setting.name for fallback in setting.chain())

    for module in (broker, cluster, groups, log, network, replication, transactions, zookeeper):
        for constant, setting in vars(module).items():
            if isinstance(setting, Setting) and re.search(rf"\b{constant}\b", text):
                add(setting)
    for name, setting in topic.TOPIC_SETTINGS.items():
        attributes = ("cleanup_delete", "cleanup_compact") if name == "cleanup.policy" else (name.replace(".", "_"),)
        assert set(attributes) <= {field.name for field in dataclasses.fields(topic.TopicConfig)}
        if all(re.search(rf"\.{attribute}\b", text) for attribute in attributes):
            add(setting)
    assert sorted({*broker.BROKER_SETTINGS, *topic.TOPIC_SETTINGS} - read) == []
