"""What killed processes of connectors left open in topics: found, and ended.  No Spark is needed for it.

It holds back whoever reads committed records, in the topic of offsets that connectors share too, and has no time-out.
"""

import re
from collections.abc import Callable, Iterable

from millstream.client.coordinators import Coordinators
from millstream.client.producing import list_open
from millstream.pipelines.spark.sink.coordinator import Driver, transactional_prefix
from millstream.pipelines.spark.sink.protocol import settle_plan


async def open_queries(coordinators: Coordinators, prefix: str) -> list[str]:
    """The queries whose names begin with this, a whole part of their path, and that have transactions open."""
    beginning = transactional_prefix(prefix.rstrip("/"))
    names = await list_open(coordinators, f"{re.escape(beginning)}.*")
    root = transactional_prefix("").rstrip("/") + "/"
    return sorted({name[len(root) :].rsplit("/", 2)[0] for name in names if name.startswith(beginning)})


async def settle(queries: Iterable[str], driver: Callable[[str], Driver]) -> None:
    """End what these have open, which nobody runs now: what was decided is committed, the rest taken back."""
    for query in queries:
        await driver(query).carry_out(settle_plan())
