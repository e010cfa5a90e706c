"""From topic to topic through a function, exactly once: consume, transform, produce, commit, whatever is killed.

Outputs and the offsets of their inputs are committed in one transaction. A transaction never spans a rebalance: the
group is heard only between two of them, and offsets are committed as a member of the group, so that a process which
lost its partitions is refused. When an outcome is not known (a broker died, the producer was fenced), a producer made
anew under the same transactional id settles it, and then the group's own offsets say where to go on.

Which transactional id? Each process wants one of its own while it runs, or they fence each other for ever; the group
and something random is therefore the default. What a killed process leaves open then ends by its time-out, in 10 s.
With an ``instance`` name, unique among those that run and the same after a restart (a pod's ordinal, a host name), the
restarted process takes over at once: the name makes the transactional id and the static membership of the group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.client.application.delivery import Delivery
from millstream.client.application.outputs import Transform
from millstream.client.application.partitioners import KEY_HASH, Partitioner
from millstream.client.application.processor import Plan, Processed, Processor
from millstream.client.application.record import Record
from millstream.client.application.serialization import Deserializer, Serializer
from millstream.client.application.start import Start


def process(
    source: str | Sequence[str],
    sink: str,
    fn: Transform,
    *,
    group: str,
    instance: str | None = None,
    delivery: Delivery | str = Delivery.EXACTLY_ONCE,
    bootstrap: str | None = None,
    start: Start = "earliest",
    key_deserializer: str | Deserializer = "bytes",
    value_deserializer: str | Deserializer = "bytes",
    key_serializer: str | Serializer = "bytes",
    value_serializer: str | Serializer = "bytes",
    partitioner: str | Partitioner = KEY_HASH,
    on_error: Callable[[Record, Exception], Any] | None = None,
    commit_records: int = 1_000,
    commit_ms: int = 100,
    stop: threading.Event | None = None,
    idle_s: float | None = None,
    patience_s: float = 300.0,
    consumer_config: Mapping[str, Any] | None = None,
    producer_config: Mapping[str, Any] | None = None,
) -> Processed:
    """Put every record of ``source`` through ``fn`` and what it returns into ``sink``; runs until it is stopped.

    ``fn`` returns a value (key, headers and timestamp stay), an Output, the record itself, a list of any of these, or
    None for nothing. It is called again for a record whose transaction was aborted, of which nothing is ever seen. If
    it raises, so does this; ``on_error(record, error)`` may return something to be sent instead.

    Commits every ``commit_records`` or ``commit_ms``. Run as many as you like with the same ``group``, each with an
    ``instance`` name of its own, or none. Brokers may die and come back; after ``patience_s`` without a commit the last
    error is raised. Ends by Ctrl-C, ``stop.set()``, or when nothing has come for ``idle_s``.
    """
    plan = Plan(
        sources=(source,) if isinstance(source, str) else tuple(source),
        sink=sink,
        fn=fn,
        on_error=on_error,
        group=group,
        instance=instance,
        delivery=Delivery.of(delivery),
        bootstrap=bootstrap,
        start=start,
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
        key_serializer=key_serializer,
        value_serializer=value_serializer,
        partitioner=partitioner,
        commit_records=commit_records,
        commit_ms=commit_ms,
        stop=stop or threading.Event(),
        idle_s=idle_s,
        patience_s=patience_s,
        consumer_config=consumer_config or {},
        producer_config=producer_config or {},
    )
    return Processor(plan).run()
