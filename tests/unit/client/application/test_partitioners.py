"""Which partition a record goes to."""

import pytest

from millstream.client.application.errors import BadSetting
from millstream.client.application.partitioners import key_hash, partitioner, round_robin
from millstream.client.partitioner import partition_of


@pytest.mark.parametrize("key", [b"", b"a", b"order-42", bytes(range(256))])
def test_a_key_belongs_where_kafkas_java_producers_put_it(key: bytes) -> None:
    assert [key_hash(key, count) for count in (1, 3, 12)] == [partition_of(key, count) for count in (1, 3, 12)]


def test_turns_go_round_whatever_the_key() -> None:
    choose = round_robin()
    assert [choose(b"same", 3) for _ in range(5)] == [0, 1, 2, 0, 1]


def test_the_usual_choice_is_left_to_librdkafka() -> None:
    assert partitioner("key_hash") is None


def test_a_partitioner_of_ones_own_is_any_callable() -> None:
    def mine(key: bytes | None, partitions: int) -> int:
        return partitions - 1

    assert partitioner(mine) is mine


def test_a_name_nobody_knows_is_refused() -> None:
    with pytest.raises(BadSetting, match="'sticky' is neither 'key_hash' nor 'round_robin' nor a callable"):
        partitioner("sticky")
