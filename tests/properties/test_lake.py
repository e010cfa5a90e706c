"""Whatever JSON comes, what a lake sink takes is read back as it was, and what it refuses leaves no trace."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.dataset
from hypothesis import given
from hypothesis import strategies as st

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sinks.lake.parquet import ParquetSink

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=3)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner), max_leaves=6)


def _bare(value: Any) -> Any:
    """A value without the difference between null and empty, which columns have only once they are known."""
    if isinstance(value, dict):
        return {name: bare for name, part in value.items() if (bare := _bare(part)) is not None} or None
    if isinstance(value, list):
        parts = [_bare(part) for part in value]
        return parts if any(part is not None for part in parts) else None
    return value


@given(st.lists(st.dictionaries(NAMES, VALUES, min_size=1), min_size=1, max_size=6), st.integers(1, 3))
def test_what_is_taken_is_read_back_and_the_rest_is_refused(values: list[dict[str, Any]], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config, _ = parse(ParquetSink.options, {"name": "lake", "store.url": folder})
        refused: set[int | None] = set()
        for number, start in enumerate(range(0, len(values), size)):
            sink = ParquetSink(config)
            sink.refuse = lambda record, error: refused.add(record.offset)  # type: ignore[method-assign]
            batch = Batch("query", number)
            records = [
                Record("t", {**value, "offset": offset}, partition=0, offset=offset)
                for offset, value in enumerate(values)
                if start <= offset < start + size
            ]
            sink.commit(batch, [sink.write(iter(records), batch)])
        found = _rows(Path(folder, "topics", "t"))
    taken = {offset: value for offset, value in enumerate(values) if offset not in refused}
    assert {row.pop("offset"): _bare(row) for row in found} == {key: _bare(value) for key, value in taken.items()}


def _rows(folder: Path) -> list[dict[str, Any]]:
    """Each file by itself, for pyarrow gives all the columns of the first."""
    files = sorted(folder.rglob("*.parquet"))
    return [row for file in files for row in pyarrow.dataset.dataset(file).to_table().to_pylist()]
