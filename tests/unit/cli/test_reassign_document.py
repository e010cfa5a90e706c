"""Plans as files."""

import io
import json
from pathlib import Path

import pytest

from millstream.cli.failure import CommandFailed
from millstream.cli.reassign.document import document_of, read_plan, write_plan
from millstream.model.ids import TopicPartition

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def written(folder: Path, text: str) -> str:
    path = folder / "plan.json"
    path.write_text(text)
    return str(path)


def test_a_plan_of_kafkas_tools_is_read(tmp_path: Path) -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[3,1],"log_dirs":["any","any"]},'
        '{"topic":"orders","partition":0,"replicas":[2]}]}'
    )
    assert read_plan(written(tmp_path, text)) == {OTHER: [3, 1], ONE: [2]}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    name = str(tmp_path / "plan.json")
    write_plan(name, {OTHER: (3, 1), ONE: (2,)})
    assert read_plan(name) == {ONE: [2], OTHER: [3, 1]}


def test_a_plan_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(document_of({ONE: [1]}))))
    assert read_plan("-") == {ONE: [1]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no plan"),
        ("[]", "holds no plan"),
        ('{"version":2,"partitions":[]}', "version 2 is not known"),
        ('{"version":1,"partitions":[]}', "names no partition"),
        ('{"partitions":[]}', "the document has no 'version'"),
        ('{"version":1}', "the document has no 'partitions'"),
        ('{"version":1,"partitions":[{"topic":"orders","partition":0}]}', r"partitions\[0\] has no 'replicas'"),
        ('{"version":1,"partitions":["orders"]}', r"partitions\[0\] has no 'topic'"),
        ('{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":["x"]}]}', "holds no plan"),
        (
            json.dumps({"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1]}] * 2}),
            "named twice",
        ),
        (
            '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["/data"]}]}',
            "log directories",
        ),
    ],
)
def test_what_is_no_plan_is_refused_with_its_reason(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(CommandFailed, match=why) as caught:
        read_plan(written(tmp_path, text))
    assert caught.value.exit_code == 2
