"""Spark's declarative pipelines over our source and sink: the example of docs/pipelines.md, as it stands there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.pipelines.running.definition import parse
from tests.pipelines.records import values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

DOCS = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"
#: `# name` on the first line of a block is the file that it is.
FILES: dict[str, str] = dict(re.findall(r"```\w+\n# (\S+)\n(.*?)```", DOCS.read_text(), re.DOTALL))
RUN_TIMEOUT_S = 400.0


def test_the_documented_yaml_is_one_that_is_taken() -> None:
    definition = parse(FILES["big-orders.yaml"], "big-orders.yaml")
    assert definition.sink["topic"] == "big-orders"


def test_the_documented_script_compiles() -> None:
    compile(FILES["totals.py"], "totals.py", "exec")


@pytest.mark.long
@pytest.mark.timeout(2 * RUN_TIMEOUT_S)
def test_declarative_pipelines_read_and_write_topics_and_go_on_where_they_were(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:  # Its own, for the topics have the documentation's names.
        _run_twice(broker, tmp_path)


def _run_twice(broker: BrokerProcess, tmp_path: Path) -> None:
    topics = Topics(broker.address)
    for name in ("orders", "big-orders"):
        topics.new(2, name=name)
    (tmp_path / "transformations").mkdir()
    for name in ("spark-pipeline.yml", "transformations/orders.py"):
        text = FILES[name].replace("localhost:9092", broker.address).replace("/tmp/big-orders", f"{tmp_path}/kept")
        (tmp_path / name).write_text(text)
    for first in (0, 10):
        topics.put("orders", [json.dumps({"id": first + each, "total": 20.0 * each}) for each in range(10)])
        ran = subprocess.run(
            [f"{os.path.dirname(sys.executable)}/spark-pipelines", "run", "--remote", "local[2]"],
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
    found = [json.loads(value or b"")["id"] for value in values_of(broker.address, "big-orders")]
    assert sorted(found) == [6, 7, 8, 9, 16, 17, 18, 19]
