"""What a broker that comes back knows of groups, offsets and transactions, and how their clients carry on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compatibility.conftest import HASTE, Hosts, wait_for_leaders
from tests.compatibility.drivers.base import Record
from tests.compatibility.drivers.confluent import ConfluentDriver
from tests.compatibility.members import Producer, leaving, places_of, settled, until
from tests.compatibility.test_restart import a_broker
from tests.compatibility.test_transactions import COMMITTED, visible

#: Outlasts a restart, that of Apache Kafka on a slow machine too.
SESSION_MS = 45_000


@pytest.mark.timeout(240)
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_groups_offsets_and_transactions_outlive_the_broker(tmp_path: Path, is_killed: bool) -> None:
    broker = a_broker(tmp_path / "data", {**HASTE, "group.consumer.session.timeout.ms": str(SESSION_MS)})
    broker.start()
    address = f"127.0.0.1:{broker.port}"
    hosts = Hosts(address)
    try:
        with ConfluentDriver(address) as driver:
            for topic in ("in", "out"):
                driver.create_topic(topic, partitions=2)
                wait_for_leaders(driver, topic, 2)
            driver.produce("in", [Record(b"%d" % i) for i in range(4)])
            members = [hosts[name].join("classic", "in", session_ms=SESSION_MS) for name in ("confluent", "java")]
            newer = hosts["confluent"].join("consumer", "in", protocol="consumer", assignor=None)
            ended, lasting = (Producer(hosts["confluent"], name) for name in ("ended", "lasting"))
            with leaving(*members, newer):
                settled(places_of("in", 2), *members)
                newer.read(4)
                newer.commit(offsets=[("in", 0, 3, "three")])
                (holder,) = [member for member in members if ("in", 0) in member.assigned]
                holder.read(4)
                holder.commit(offsets=[("in", 0, 2, "two")])
                for end in (ended.commit, ended.abort):
                    ended.begin()
                    ended.send("out", end.__name__)
                    end()
                lasting.begin()
                lasting.send("out", "lasting")
                lasting.send_offsets(newer, ("in", 0, 4))

                if is_killed:
                    broker.kill()
                else:
                    broker.stop()
                broker.start()
                wait_for_leaders(driver, "in", 2)

                assert holder.committed("in") == (2, "two")
                driver.produce("in", [Record(b"after")])
                for member in (holder, newer):
                    until(lambda member=member: "after" in [row.value for row in member.rows], member)  # type: ignore[misc]
                settled(places_of("in", 2), *members)
                # They may join again once topics are back, but as members that the broker knew.
                assert not any(kind == "lost" for member in (*members, newer) for kind, _ in member.events)
                lasting.commit()
                until(lambda: newer.committed("in") == (4, ""))
                assert visible(hosts["confluent"], "out", COMMITTED, 2) == ["commit", "lasting"]
                ended.begin()
                ended.send("out", "again")
                ended.commit()
                assert visible(hosts["confluent"], "out", COMMITTED, 3) == ["commit", "lasting", "again"]
    finally:
        hosts.close()
        broker.kill()
