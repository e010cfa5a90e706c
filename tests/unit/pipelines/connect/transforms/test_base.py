"""What the documentation shows of transforms is so."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.pipelines.connect.chain import SinkChain, Surroundings
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.plugins import PLUGINS, Kind
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.settings import SINK
from millstream.pipelines.connect.validation import validate

PAGE = (Path(__file__).parents[5] / "docs" / "connect-transforms.md").read_text()


def _block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


class _Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0


def test_the_config_that_is_shown_can_work() -> None:
    config = json.loads(_block("json"))
    found = validate(config)
    assert found["error_count"] == 0, [each["value"] for each in found["configs"] if each["value"]["errors"]]
    SinkChain(config, Surroundings(_Clock(), lambda seconds: None, lambda line, error: None))


def test_the_transform_that_is_shown_transforms() -> None:
    names: dict[str, Any] = {}
    exec(_block("python"), names)
    assert names["Upper"](Config({})).apply(Record("topic", "abc")) == Record("topic", "ABC")


def test_every_transform_and_each_of_its_options_is_on_the_page() -> None:
    shared = {"replace.null.with.default"}
    for plugin in PLUGINS:
        if plugin.kind in (Kind.TRANSFORMATION, Kind.PREDICATE, Kind.CONVERTER):
            assert f"`{plugin.name.rpartition('.')[2].partition('$')[0]}" in PAGE
            missing = {option.name for option in plugin.load().options} - shared - _named()
            assert not missing, plugin.name


def test_every_setting_of_errors_is_on_the_page() -> None:
    told: Mapping[str, Any] = {option.name: option for option in SINK if option.name.startswith("errors.")}
    assert set(told) <= _named()


def _named() -> set[str]:
    """Everything that the page has in backticks."""
    return set(re.findall(r"`([^`\n]+)`", PAGE))
