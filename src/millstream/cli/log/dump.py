"""Print what lies in a broker's segments, indexes, snapshots and checkpoints.

The broker may be running. Damage is told, and the exit code is then 1.

millstream log dump data/orders-0
millstream log dump --records -o json data/orders-0/00000000000000000000.log
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping

from millstream.cli.options import add_output_option

Row = Mapping[str, object]

#: The columns of a segment's table and their widths: rows are printed as they are read, a segment may have millions.
SEGMENT_COLUMNS = {"position": 10, "offsets": 13, "records": 7, "bytes": 8, "epoch": 5, "max_time": 24}
TABLE_ROWS = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder to print all files of")
    parser.add_argument("-r", "--records", action="store_true", help="print the records inside batches too")
    add_output_option(parser)


def run(args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.log.readers import reader_for

    faults = 0
    files = list(_files(args.paths))
    for number, path in enumerate(files):
        reader = reader_for(path)
        if reader is None:
            raise CommandFailed(f"{path}: not a file of a broker's log that can be printed", exit_code=2)
        if args.output == "table":
            print(f"{chr(10) if number else ''}{path}")
        rows = _Counted(reader(path, args.records))
        _PRINTERS[args.output](path, rows)
        faults += rows.faults
    return 1 if faults else 0


class _Counted:
    """Rows as they pass, with a count of those that tell of damage."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = rows
        self.faults = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.faults += "fault" in row
            yield row


def _files(paths: Iterable[str]) -> Iterator[str]:
    """The files named, and those of the folders named that can be printed, in order."""
    from millstream.cli.log.readers import reader_for

    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        for name in sorted(os.listdir(path)):
            full = os.path.join(path, name)
            if os.path.isfile(full) and reader_for(full) is not None:
                yield full


def _print_table(path: str, rows: Iterable[Row]) -> None:
    if path.endswith(".log"):
        _print_segment(rows)
        return
    from itertools import islice

    from millstream.cli.output import table

    is_first = True
    remaining = iter(rows)
    while some := list(islice(remaining, TABLE_ROWS)):
        sound = [row for row in some if "fault" not in row]
        if sound:
            lines = table(sound)
            print(lines if is_first else lines.partition("\n")[2])
        for row in some:
            if "fault" in row:
                print(f"DAMAGED: {row['fault']}")
        is_first = False


def _print_segment(rows: Iterable[Row]) -> None:
    from millstream.cli.output import cell

    print(_columns({name: name.replace("_", "-").upper() for name in SEGMENT_COLUMNS}))
    for row in rows:
        if "base_offset" in row:
            shown = {**row, "offsets": f"{row['base_offset']}-{row['last_offset']}"}
            print(_columns({name: cell(shown[name]) for name in SEGMENT_COLUMNS}), *_marks(row))
        if "fault" in row:
            print(f"DAMAGED at {row['position']}: {row['fault']}")
        contents = row.get("contents")
        for record in contents if isinstance(contents, list) else ():
            print("  ", " ".join(f"{name}={cell(value)}" for name, value in record.items() if name != "timestamp"))


def _marks(row: Row) -> list[str]:
    """What only some batches have, and so has no column."""
    marks = [] if row["codec"] == "none" else [str(row["codec"])]
    if row["producer_id"] is not None:
        marks.append(f"producer={row['producer_id']}/{row['producer_epoch']}")
        marks.append(f"sequence={row['base_sequence']}")
    if row["timestamp_type"] == "append":
        marks.append("append-time")
    return marks + [mark for mark in ("transactional", "control") if row[mark]]


def _columns(cells: Mapping[str, str]) -> str:
    return "  ".join(cells[name].rjust(width) for name, width in SEGMENT_COLUMNS.items())


def _print_json(path: str, rows: Iterable[Row]) -> None:
    """A line of JSON for each row, so that a large segment needs no memory."""
    import json

    for row in rows:
        print(json.dumps({"file": path, **row}, ensure_ascii=False))


def _print_yaml(path: str, rows: Iterable[Row]) -> None:
    import sys

    import yaml

    for row in rows:
        yaml.safe_dump({"file": path, **row}, sys.stdout, sort_keys=False, allow_unicode=True, explicit_start=True)


_PRINTERS = {"table": _print_table, "json": _print_json, "yaml": _print_yaml}
