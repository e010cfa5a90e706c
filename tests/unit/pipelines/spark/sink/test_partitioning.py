import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millstream.client.partitioner import murmur2, partition_of
from millstream.pipelines.spark.sink.partitioning import murmur2_of, partitions_of


def _laid_out(keys: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(lengths) - lengths
    return np.frombuffer(b"".join(keys), np.uint8), starts, lengths


@given(st.lists(st.binary(max_size=20), max_size=30))
def test_every_key_hashes_as_it_does_by_itself(keys: list[bytes]) -> None:
    assert murmur2_of(*_laid_out(keys)).tolist() == [murmur2(key) for key in keys]


def test_long_keys_hash_as_short_ones_do() -> None:
    keys = [bytes(range(256)) * 9, b"x" * 257, b"", b"y" * 256]
    assert murmur2_of(*_laid_out(keys)).tolist() == [murmur2(key) for key in keys]


def test_hashes_are_those_of_kafkas_java_producer() -> None:
    """The values of Kafka's own unit test of this hash."""
    table = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    hashed = murmur2_of(*_laid_out(list(table)))
    assert hashed.view(np.int32).tolist() == list(table.values())


def test_partitions_are_those_of_our_other_producers() -> None:
    keys = [str(number).encode() for number in range(100)]
    assert partitions_of(*_laid_out(keys), 7).tolist() == [partition_of(key, 7) for key in keys]
