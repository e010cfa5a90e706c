"""Listings: the same rows as an aligned table, as JSON or as YAML."""

import sys
from collections.abc import Mapping, Sequence

Row = Mapping[str, object]


def show(rows: Sequence[Row], output: str, columns: Sequence[str] | None = None) -> None:
    """Print the rows; a table shows ``columns`` only (all when None), JSON and YAML everything."""
    if output == "table":
        print(table(rows, columns))
    else:
        show_document(list(rows), output)


def show_document(document: object, output: str) -> None:
    """Print anything made of dicts, lists and scalars as JSON or YAML."""
    if output == "json":
        import json

        json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
        print()
        return
    import yaml

    yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)


def table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> str:
    """The rows under a line of headings; numbers to the right, the rest to the left, no spaces at line ends."""
    names = list(columns) if columns is not None else list(rows[0]) if rows else []
    headings = [name.replace("_", "-").upper() for name in names]
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    to_right = [_are_numbers([row.get(name) for row in rows]) for name in names]
    return "\n".join(_line(line, widths, to_right) for line in [headings, *cells])


def cell(value: object) -> str:
    """One value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(cell(part) for part in value)
    text = str(value)
    if text.isprintable():
        return text
    # A client may name itself anything, and must not steer the reader's terminal.
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _are_numbers(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known)


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    padded = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(cells, widths, to_right, strict=True)
    )
    return "  ".join(padded).rstrip()
