"""How the broker behaves at size: long logs, many partitions, work in the background.  One file per bench."""

from collections.abc import Callable

from bench.scale import (
    catch_up,
    cold_read,
    compaction,
    large_groups,
    log_size,
    many_members,
    many_partitions,
    offsets_load,
    recovery,
)

#: name -> bench(contenders, quick), which gives a Markdown table.
BENCHES: dict[str, Callable[[list[str], bool], str]] = {
    "cold-read": cold_read.bench,
    "log-size": log_size.bench,
    "many-partitions": many_partitions.bench,
    "compaction": compaction.bench,
    "recovery": recovery.bench,
    "large-groups": large_groups.bench,
    "many-members": many_members.bench,
    "offsets-load": offsets_load.bench,
    "cluster-catch-up": catch_up.bench,
}
