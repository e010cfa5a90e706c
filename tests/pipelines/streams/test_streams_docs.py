"""Every Python example of docs/streams.md runs, in its order."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"


def test_the_examples_run(spark: SparkSession) -> None:
    text = PAGE.read_text()
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(examples) >= 7
    names: dict[str, object] = {"__name__": "__main__"}
    for example in examples:
        line = text[: text.index(example)].count("\n")
        exec(compile("\n" * line + example, str(PAGE), "exec"), names)
