"""A flow's work without Spark: what its tasks and its driver do, called one after the other."""

import asyncio
from collections.abc import Iterable, Sequence

from millstream.client.cluster import Cluster
from millstream.client.partitions import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from millstream.client.wire import parse_addresses
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.definition import Flow, Mirror
from millstream.pipelines.mirror.passing import Done, Stretch, Work, pass_on
from millstream.pipelines.mirror.topic_names import full_name, id_text
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.protocol import commit_plan


def flow_between(source: str, target: str, *more: str) -> Flow:
    """The flow A->B between two addresses."""
    lines = ["clusters=A,B", f"A.bootstrap.servers={source}", f"B.bootstrap.servers={target}", "A->B.enabled=true"]
    return Mirror("\n".join([*lines, *more]), "test.properties").flows[0]


def stretches_of(address: str, topic: str, remote: str, since: Iterable[Stretch] = ()) -> list[Stretch]:
    """All that is there of a topic, or what came since."""
    before = {each.partition: each.stop for each in since}

    async def ask() -> list[Stretch]:
        async with Cluster(parse_addresses(address)) as cluster:
            found = await cluster.topic(topic)
            parts = [TopicPartition(topic, part.index) for part in found.partitions]
            starts = await list_offsets(cluster, dict.fromkeys(parts, EARLIEST))
            stops = await list_offsets(cluster, dict.fromkeys(parts, LATEST), isolation=READ_COMMITTED)
            begins = {tp: before.get(tp.partition, starts[tp].offset) for tp in parts}
            return [Stretch(*tp, begins[tp], stops[tp].offset, remote, id_text(full_name(found))) for tp in parts]

    return asyncio.run(ask())


def work_between(source: str, target: str, query: str = "test", timeout_ms: int = 30_000) -> Work:
    return Work(source, target, query, timeout_ms)


def commit(work: Work, number: int, done: Sequence[Done]) -> None:
    """Let what was passed on count."""
    here = sink_process(work.options())
    mine = [each.transaction for each in done if each.transaction is not None]
    here.run(here.driver(work.query).carry_out(commit_plan(number, mine)))


def mirror_once(source: str, target: str, topic: str, remote: str) -> Done:
    """Pass on all of a topic in one batch."""
    work = work_between(source, target)
    done = pass_on(work, stretches_of(source, topic, remote))
    commit(work, 0, [done])
    return done
