"""The source and the sink that docs/connect.md shows, run as it says."""

import re
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from millstream.pipelines.connect.validation import validate
from tests.pipelines.connect.connectors import Connector
from tests.pipelines.records import values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(600)

PAGE = Path(__file__).parents[3] / "docs" / "connect.md"
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def _write_examples(folder: Path) -> list[int]:
    """The examples that begin with the name of a file, in files of that name; how many lines each has."""
    examples = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    for name, text in examples:
        (folder / name).write_text(text)
    return [len([line for line in text.splitlines() if line.strip()]) for _, text in examples]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"connector.class": "days.DaySource", "topic": "d", "since": "someday"}, "since=someday: must be text, a day"),
        ({"connector.class": "days.DaySource", "topic": "d", "since": "2024-02-29"}, ""),
        (
            {"connector.class": "counts.CountSink", "topics": "d", "database": "/nope/counts.db"},
            "there is no folder /nope",
        ),
    ],
)
def test_what_the_page_shows_checks_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], complaint: str
) -> None:
    _write_examples(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("days", "counts"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    configs = validate({"name": "own", **given})["configs"]
    errors = " ".join(error for each in configs for error in each["value"]["errors"])
    assert complaint in errors and bool(complaint) == bool(errors)


def test_what_the_page_shows_works_and_is_short(broker: BrokerProcess, topics: Topics, tmp_path: Path) -> None:
    assert [lines <= 33 for lines in _write_examples(tmp_path)] == [True, True]
    topic = topics.new(2)
    today = datetime.now(UTC).date()
    since = today - timedelta(days=1000)
    base = tmp_path / "counts.db"
    given = {"name": "days", "connector.class": "days.DaySource", "topic": topic, "since": str(since), **JSON}
    with Connector(broker.address, tmp_path, given, path=tmp_path) as days:
        days.wait(lambda: days.records >= 1000, "all days")
        days.stop()
    assert len(values_of(broker.address, topic)) in (1000, 1001)  # Midnight may have passed.
    given = {"name": "counts", "connector.class": "counts.CountSink", "topics": topic, "database": str(base), **JSON}
    with Connector(broker.address, tmp_path, given, path=tmp_path) as counts:
        counts.wait(lambda: counts.records >= 1000, "all days")
        counts.stop()
    with closing(sqlite3.connect(base)) as found:
        by_weekday = dict(found.execute("SELECT weekday, days FROM counts").fetchall())
    assert sum(by_weekday.values()) in (1000, 1001)
    assert by_weekday[date.fromisoformat(str(since)).strftime("%A")] == 143
