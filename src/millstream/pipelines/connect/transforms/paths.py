"""Paths to fields: in ``field.syntax.version`` V1 a name, in V2 points that lead to fields within fields."""

from collections.abc import Mapping
from typing import Any

from millstream.config.setting import STRING, Check
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.options import Option
from millstream.pipelines.connect.schema import Field, Schema
from millstream.pipelines.connect.transforms.shapes import field_value, require_map, require_struct

FIELD_SYNTAX_VERSION = Option[str](
    "field.syntax.version",
    STRING,
    default="V1",
    check=Check("one of V1, V2", lambda text: text.upper() in ("V1", "V2")),
    doc="V1: a field is a name. V2: points lead to fields within fields; a name with points stands in backticks.",
    importance="HIGH",
)
_NESTED = "nested field access"


class Path:
    """A way to a field."""

    def __init__(self, text: str, version: str) -> None:
        self.text = text
        steps = [text] if version.upper() == "V1" else _steps(text)
        self._before, self._last = steps[:-1], steps[-1]

    def field_in(self, schema: Schema) -> Schema | None:
        """The schema of the field; None where there is none."""
        current: Schema | None = schema
        for step in (*self._before, self._last):
            current = current.field(step) if current is not None else None
        return current

    def in_struct(self, schema: Schema, value: Mapping[str, Any], with_default: bool) -> Any:
        """What the field of a struct holds; None where there is none."""
        for step in self._before:
            inner = schema.field(step)
            found = None if inner is None else field_value(Field(step, inner), value, True)
            if inner is None or found is None:
                return None
            schema, value = inner, require_struct(inner, found, _NESTED)
        last = schema.field(self._last)
        return None if last is None else field_value(Field(self._last, last), value, with_default)

    def in_map(self, value: Mapping[str, Any]) -> Any:
        """What the field holds of a value without a schema; None where there is none."""
        for step in self._before:
            found = value.get(step)
            if found is None:
                return None
            value = require_map(found, _NESTED)
        return value.get(self._last)


def _steps(text: str) -> list[str]:
    steps: list[str] = []
    place = 0
    while place < len(text):
        if text[place] == "`":
            step, place = _quoted(text, place)
        else:
            end = text.find(".", place)
            end = len(text) if end < 0 else end
            step, place = text[place:end], end + 1
        steps.append(step)
    return [*steps, ""] if text.endswith(".") or not text else steps


def _quoted(text: str, begin: int) -> tuple[str, int]:
    """A step in backticks and where the next begins.

    Only a backtick before a point or at the end closes it, and not even that one behind a backslash.
    """
    step, start, place = "", begin + 1, begin + 1
    while True:
        place = text.find("`", place)
        escaped = place > 0 and text[place - 1] == "\\"
        if place < 0 or (place == len(text) - 1 and escaped):
            raise Misconfigured(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position "
                f"{begin} to escape it"
            )
        if place == len(text) - 1:
            return step + text[start:place], place + 1
        if text[place + 1] == ".":
            if not escaped:
                return step + text[start:place], place + 2
            step += text[start : place - 1] + "`"
            start = place + 1
        place += 1
