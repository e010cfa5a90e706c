"""docs/connect-lake.md says what there is: configs that are accepted, and every option."""

import json
import re
from pathlib import Path

import pytest

from millstream.pipelines.connect.sinks.http import HttpSink
from millstream.pipelines.connect.sinks.lake.delta import DeltaSink
from millstream.pipelines.connect.sinks.lake.iceberg import IcebergSink
from millstream.pipelines.connect.sinks.lake.parquet import ParquetSink
from millstream.pipelines.connect.validation import validate

TEXT = (Path(__file__).resolve().parents[5] / "docs" / "connect-lake.md").read_text()
CONFIGS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]


@pytest.mark.parametrize("request_body", CONFIGS, ids=[config["name"] for config in CONFIGS])
def test_the_configs_shown_are_accepted(request_body: dict[str, dict[str, str]], tmp_path: Path) -> None:
    config = {"name": str(request_body["name"]), **request_body["config"]}
    if "store.url" in config:
        config["store.url"] = str(tmp_path)
    found = validate(config)
    assert found["error_count"] == 0, [each["value"]["errors"] for each in found["configs"]]


@pytest.mark.parametrize("sink", [ParquetSink, DeltaSink, IcebergSink, HttpSink])
def test_every_option_is_told(sink: type[ParquetSink | DeltaSink | IcebergSink | HttpSink]) -> None:
    missing = [option.name for option in sink.options if f"`{option.name}`" not in TEXT and option.name != "locale"]
    assert not missing
