"""What `cluster health` prints while it looks again and again."""

import argparse
import asyncio
import json
import re

import pytest

from millstream.cli.cluster import health
from millstream.client.cluster import Cluster
from millstream.client.wire import parse_addresses

UNWELL = {"healthy": False, "brokers_down": [3]}
WELL = {"healthy": True, "brokers_down": []}


def watched(monkeypatch: pytest.MonkeyPatch, output: str) -> int:
    """The exit code of a watch that finds the cluster unwell, twice, and then well."""
    found = iter([UNWELL, UNWELL, WELL])

    async def look(cluster: Cluster, before: dict[str, object] | None) -> dict[str, object]:
        return dict(next(found))

    monkeypatch.setattr(health, "_look", look)
    args = argparse.Namespace(output=output, watch=True, exit_when_healthy=True, interval_s=0)
    return asyncio.run(health.run(Cluster(parse_addresses("127.0.0.1:1")), args))


def test_each_change_is_printed_under_the_time_of_day(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watched(monkeypatch, "table") == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        r"healthy: no\nbrokers down: 3\n\nat [0-2]\d:[0-5]\d:[0-6]\d\nhealthy: yes\n",
        printed,
    )


def test_documents_follow_one_another_with_nothing_between(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watched(monkeypatch, "json") == 0
    first, _, second = capsys.readouterr().out.partition("}\n")
    assert [json.loads(first + "}"), json.loads(second)] == [UNWELL, WELL]
