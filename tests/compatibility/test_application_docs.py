"""Every Python example of docs/api.md runs, in its order, against a broker of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.system.broker_process import BrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(examples) >= 8
    names: dict[str, object] = {}
    with BrokerProcess(tmp_path / "data") as broker:
        monkeypatch.setenv("MILLSTREAM_BOOTSTRAP", broker.address)
        for example in examples:
            line = text[: text.index(example)].count("\n")
            exec(compile("\n" * line + example, str(PAGE), "exec"), names)
