"""What Delta keeps of a file, so that readers may pass over it: how many rows, and the bounds of plain columns."""

import datetime
import math
from typing import Any

#: Longer texts are no bounds; a cut one would have to be raised, and gains little.
TEXT_MAX = 32


def of_file(metadata: Any) -> dict[str, Any]:
    """Delta's statistics, from the footer of a Parquet file."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        chunks = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        name = chunks[0].path_in_schema if chunks else ""
        found = [chunk.statistics for chunk in chunks]
        # A path with a dot is a part of a column, or a column of that name; bounds are for neither.
        if not name or "." in name or not all(each is not None and each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounds = [each for each in found if each.has_min_max]
        if len(bounds) == sum(each.num_values > 0 for each in found) and bounds:
            low, high = _text(min(each.min for each in bounds)), _text(max(each.max for each in bounds))
            if low is not None and high is not None:
                least[name], most[name] = low, high
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _text(value: Any) -> Any:
    """A bound as JSON has it; None for what is none."""
    if isinstance(value, bool | bytes):
        return None
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else None
    if isinstance(value, datetime.datetime):
        # Delta keeps milliseconds, and readers allow for those that were cut off: an upper bound is not safe without.
        return value.isoformat(timespec="milliseconds") if value.microsecond % 1000 == 0 else None
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) else None
