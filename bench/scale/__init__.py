"""How the broker behaves at size: long logs, many partitions, work in the background.  One file per bench."""

from collections.abc import Callable

#: name -> bench(contenders, quick), which gives a Markdown table.
BENCHES: dict[str, Callable[[list[str], bool], str]] = {}
