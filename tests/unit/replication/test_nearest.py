"""Which replica a consumer is sent to."""

import pytest

from millstream.replication.leading import Leading
from millstream.replication.nearest import nearest_replica


@pytest.mark.parametrize(
    ("racks", "rack", "offset", "nearest"),
    [
        ({1: "a", 2: "b", 3: "c"}, "b", 5, 2),
        ({1: "a", 2: "b", 3: "b"}, "b", 5, 3),  # It has come further.
        ({1: "b", 2: "b", 3: "b"}, "b", 5, None),  # The leader is as near.
        ({1: "a", 2: "b", 3: "c"}, "d", 5, None),  # Nobody is near.
        ({1: "a", 2: "b", 3: "c"}, "b", 9, None),  # It does not have that yet.
        ({1: "a", 2: None, 3: None}, "b", 5, None),
        ({1: "a", 4: "b"}, "b", 5, None),  # No longer in sync.
        ({}, "b", 5, None),
    ],
)
def test_a_consumer_is_sent_to_an_in_sync_replica_in_its_rack(
    racks: dict[int, str | None], rack: str, offset: int, nearest: int | None
) -> None:
    leading = Leading(1, (1, 2, 3, 4), (1, 2, 3), 0, 0, ())
    for replica, end in ((2, 8), (3, 10), (4, 10)):
        leading.followers[replica].fetched(end, 10, 0)
    assert nearest_replica(leading, racks, rack, offset) == nearest
