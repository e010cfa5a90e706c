"""Which nodes others may read or change."""

import pytest

from millstream.registry.zookeeper.access import Access, access_of


@pytest.mark.parametrize(
    ("path", "access"),
    [
        ("/", Access.READABLE),
        ("/brokers/ids/1", Access.READABLE),
        ("/config/topics/orders", Access.READABLE),
        ("/config/users", Access.PRIVATE),
        ("/config/users/alice", Access.PRIVATE),
        ("/config/brokers/1", Access.PRIVATE),
        ("/consumers", Access.OPEN),
        ("/consumers/group/ids/member", Access.OPEN),
        ("/consumersx", Access.READABLE),
    ],
)
def test_nodes_are_protected_as_kafka_protects_them(path: str, access: Access) -> None:
    assert access_of(path) is access
