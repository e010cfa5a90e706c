"""Keys go where Kafka's own producers would send them."""

import pytest

from millstream.client.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_apache_kafkas_own_tests(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_a_partition_is_within_the_topic_and_stays_the_same() -> None:
    places = [partition_of(b"%d" % number, 7) for number in range(1000)]
    assert set(places) == set(range(7))
    assert places == [partition_of(b"%d" % number, 7) for number in range(1000)]
