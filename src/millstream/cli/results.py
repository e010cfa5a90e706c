"""The rows of a query, printed as they come: as a table, JSON, YAML or CSV."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from millstream.cli.output import table

Row = Mapping[str, object]


def show_rows(columns: Sequence[str], rows: Iterable[Row], output: str) -> None:
    """Print the rows; all but a table hold none of them."""
    _PRINTERS[output](columns, rows)


def _table(columns: Sequence[str], rows: Iterable[Row]) -> None:
    print(table([{name: _flat(value) for name, value in row.items()} for row in rows], columns))


def _json(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """One array, laid out as every listing is."""
    is_first = True
    for row in rows:
        sys.stdout.write("[\n" if is_first else ",\n")
        lines = json.dumps(row, indent=2, ensure_ascii=False).splitlines()
        sys.stdout.write("\n".join(f"  {line}" for line in lines))
        is_first = False
    print("[]" if is_first else "\n]")


def _yaml(columns: Sequence[str], rows: Iterable[Row]) -> None:
    import yaml

    is_empty = True
    for row in rows:
        yaml.safe_dump([dict(row)], sys.stdout, sort_keys=False, allow_unicode=True)
        is_empty = False
    if is_empty:
        print("[]")


def _csv(columns: Sequence[str], rows: Iterable[Row]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_flat(row[name]) for name in columns])


def _flat(value: object) -> object:
    """A value that has parts as JSON, for what has cells."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


_PRINTERS = {"table": _table, "json": _json, "yaml": _yaml, "csv": _csv}
