"""What killed processes leave open in topics: a worker ends it, and trusts no offsets that it holds back."""

from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from confluent_kafka import Producer

from tests.pipelines.connect.test_worker import make, processes
from tests.pipelines.connect.workers import scripted_worker
from tests.pipelines.processes import kill
from tests.pipelines.records import values_of
from tests.pipelines.topics import TIMEOUT_S, Topics
from tests.system.broker_process import BrokerProcess

#: While this passes, an answer that must not come would have come.
SILENCE_S = 1.0


def leave_open(address: str, group: str, name: str, topic: str) -> Producer:
    """A transaction as the process of a connector begins it."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": f"millstream-sink/connect/{group}/{name}/1/checkpoint/nonce/1",
            "transaction.timeout.ms": 600_000,
            "log_level": 2,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, key='["running",{}]', value='{"never":"decided"}', partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return producer


def test_a_worker_ends_what_a_killed_process_left_open(broker: BrokerProcess, topics: Topics, tmp_path: Path) -> None:
    topic = topics.new()
    with scripted_worker(broker.address, tmp_path, "leaving") as api:
        make(api, "killed")
        api.wait_for_state("killed", "RUNNING", "RUNNING")
        left = leave_open(broker.address, "leaving", "killed", topic)
        topics.put(topic, ["later"])
        assert values_of(broker.address, topic) == []
        [pid] = processes(api)
        assert kill(pid)
        api.wait_for(lambda: values_of(broker.address, topic) == [b"later"])
        api.wait_for_state("killed", "RUNNING", "RUNNING")
        del left


def test_a_worker_that_is_started_ends_what_others_before_it_left(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """Of a connector that rests, and of one that is no more."""
    topic = topics.new()
    with scripted_worker(broker.address, tmp_path, "left") as api:
        make(api, "rests")
        api.wait_for_state("rests", "RUNNING", "RUNNING")
        assert api.ask("PUT", "/connectors/rests/pause").status == 202
        api.wait_for_state("rests", "PAUSED", "PAUSED")
        assert api.stop() == 0
        left = [leave_open(broker.address, "left", name, topic) for name in ("rests", "gone%2Fby%20now")]
        topics.put(topic, ["later"])
        assert values_of(broker.address, topic) == []
        api.start()
        api.wait_for(lambda: values_of(broker.address, topic) == [b"later"])
        del left


def test_altered_offsets_count_though_others_hold_their_topic_back(broker: BrokerProcess, tmp_path: Path) -> None:
    """They are not said to be altered before whoever begins would read them."""
    with scripted_worker(broker.address, tmp_path, "held") as api:
        make(api, "far")
        assert api.ask("PUT", "/connectors/far/stop").status == 204
        there = {"partition": {"file": "x"}, "offset": {"line": 5}}
        other = leave_open(broker.address, "another-group", "running", "held-offsets")
        with ThreadPoolExecutor() as beside:
            altering = beside.submit(api.ask, "PATCH", "/connectors/far/offsets", {"offsets": [there]})
            assert not wait([altering], SILENCE_S).done
            assert api.get("/connectors/far/offsets") == {"offsets": []}, "whoever only looks need not wait"
            other.commit_transaction(TIMEOUT_S)
            assert altering.result(TIMEOUT_S).status == 200
        assert api.get("/connectors/far/offsets") == {"offsets": [there]}
