"""The raw client against the ceiling: the two ends of the benchmark, with no broker between them."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from bench import runner, wire
from bench.servers import PROJECT, Ceiling

from millstream.model.records import decode_batch
from tests.batches import checked_batches


@pytest.fixture(scope="module")
def ceiling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ceiling]:
    server = Ceiling(tmp_path_factory.mktemp("ceiling") / "data", {})
    server.start()
    yield server
    server.stop()


def test_an_encoded_batch_is_one_a_broker_takes() -> None:
    batch = wire.encode_batch([b"one", b"two"], keys=[b"a", b"b"])
    assert [header.record_count for _, header in checked_batches(batch)] == [2]
    assert [(record.key, record.value) for record in decode_batch(batch)] == [(b"a", b"one"), (b"b", b"two")]


def test_what_is_produced_is_fetched(ceiling: Ceiling) -> None:
    batch = wire.encode_batch([b"one", b"two"])
    with wire.Connection(ceiling.address) as connection:
        connection.await_topic("echo")
        for base_offset in (0, 2):
            answer = connection.ask(wire.produce_frame("echo", batch))
            assert 4 + len(answer) == wire.produce_answer_bytes("echo")
            assert wire.produced_offset(answer, "echo", -4) == base_offset
        assert connection.offset("echo", wire.LATEST) == 4
        answer = connection.ask(wire.fetch_frame("echo", 1, wait_ms=0, bytes_max=1 << 20))
        assert wire.batches(wire.fetched(answer, "echo")) == [(0, 2), (2, 4)]


@pytest.mark.parametrize(
    ("load", "options", "figure"),
    [
        ("raw_requests", {"requests": 640}, "requests_per_s"),
        ("raw_round_trips", {"requests": 100}, "requests_per_s"),
        ("raw_latency", {"seconds": 0.2}, "p99_us"),
        ("raw_end_to_end", {"seconds": 0.2}, "p99_us"),
        ("raw_fill", {"bytes": 1_000_000}, "bytes_per_s"),
        ("librdkafka_produce", {"records": 10_000, "bytes": 100}, "records_per_s"),
        ("librdkafka_transactions", {"transactions": 3}, "transactions_per_s"),
    ],
)
def test_a_load_gives_its_figure(ceiling: Ceiling, load: str, options: dict[str, float], figure: str) -> None:
    assert runner.run(load, ceiling, topic=load, **options)[figure] > 0


def test_a_load_that_fails_says_why(ceiling: Ceiling) -> None:
    with pytest.raises(runner.LoadFailed, match="--reads"):
        runner.run("raw_random_reads", ceiling, topic="none")


def test_an_unknown_bench_is_refused_and_the_others_are_named() -> None:
    command = [sys.executable, "-m", "bench", "nonsense"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no bench is called nonsense; there are: small-records" in done.stderr
    assert "cold-read" in done.stderr
