"""The nodes' bytes, as ``zookeeper-shell`` shows them under Apache Kafka 3.9."""

import json

import pytest

from millstream.model.ids import uuid_from_text
from millstream.registry import nodes
from millstream.registry.nodes import (
    Assignment,
    BrokerRegistration,
    ControllerClaim,
    Endpoint,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)
from millstream.registry.tree import RegistryFailure

TOPIC_ID = uuid_from_text("uFC0UhwmQTqV31scnQLZfQ")

#: node type, arguments of its path, path, value, bytes
EXAMPLES = [
    (nodes.CLUSTER_ID, (), "/cluster/id", "xNr5XeCZQCe1yFzsfgGlWg", b'{"version":"1","id":"xNr5XeCZQCe1yFzsfgGlWg"}'),
    (
        nodes.BROKER,
        (0,),
        "/brokers/ids/0",
        BrokerRegistration(
            endpoints=(Endpoint("PLAINTEXT", "localhost", 9092), Endpoint("TLS", "::1", 9093, "SSL")),
            rack="east",
            timestamp_ms=1620000000000,
        ),
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","TLS":"SSL"},'
        b'"endpoints":["PLAINTEXT://localhost:9092","TLS://::1:9093"],"jmx_port":-1,"port":9092,'
        b'"host":"localhost","version":5,"timestamp":"1620000000000","rack":"east"}',
    ),
    (
        nodes.TOPIC,
        ("orders",),
        "/brokers/topics/orders",
        TopicAssignment(TOPIC_ID, {0: (1, 2), 1: (2, 1)}, adding={1: (3,)}),
        b'{"removing_replicas":{},"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"uFC0UhwmQTqV31scnQLZfQ",'
        b'"adding_replicas":{"1":[3]},"version":3}',
    ),
    (
        nodes.PARTITION_STATE,
        ("orders", 3),
        "/brokers/topics/orders/partitions/3/state",
        PartitionState(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=7),
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}',
    ),
    (
        nodes.PARTITION_STATE,
        ("orders", 3),
        "/brokers/topics/orders/partitions/3/state",
        PartitionState(leader=1, leader_epoch=4, isr=(1,), controller_epoch=7, is_recovering=True),
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":4,"isr":[1],"leader_recovery_state":1}',
    ),
    (
        nodes.PARTITION_STATE,
        ("orders", 3),
        "/brokers/topics/orders/partitions/3/state",
        PartitionState(leader=-1, leader_epoch=5, isr=(), controller_epoch=7, eligible=(2, 3), last_known=1),
        b'{"controller_epoch":7,"leader":-1,"version":1,"leader_epoch":5,"isr":[],'
        b'"eligible_leader_replicas":[2,3],"last_known_leader":1}',
    ),
    (
        nodes.BROKER,
        (3,),
        "/brokers/ids/3",
        BrokerRegistration((Endpoint("PLAINTEXT", "localhost", 9092),), is_clean=True, min_in_sync=2),
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://localhost:9092"],"jmx_port":-1,"port":9092,'
        b'"host":"localhost","version":5,"timestamp":"0","clean":true,"min_insync_replicas":2}',
    ),
    (nodes.LIFE, (3,), "/brokers/lives/3", 7, b'{"version":1,"life":7}'),
    (nodes.SETTLED, (), "/brokers/settled", {1: 70, 2: 64}, b'{"version":1,"epochs":{"1":70,"2":64}}'),
    (
        nodes.CONTROLLER,
        (),
        "/controller",
        ControllerClaim(0, 1620000000000),
        b'{"version":2,"brokerid":0,"timestamp":"1620000000000","kraftControllerEpoch":-1}',
    ),
    (nodes.CONTROLLER_EPOCH, (), "/controller_epoch", 12, b"12"),
    (nodes.DELETED_TOPIC, ("orders",), "/admin/delete_topics/orders", None, b""),
    (
        nodes.OVERRIDES,
        ("topics", "orders"),
        "/config/topics/orders",
        {"retention.ms": "1000"},
        b'{"version":1,"config":{"retention.ms":"1000"}}',
    ),
    (
        nodes.OVERRIDES,
        ("brokers", nodes.DEFAULT_ENTITY),
        "/config/brokers/<default>",
        {},
        b'{"version":1,"config":{}}',
    ),
    (
        nodes.CONFIG_CHANGE,
        ("0000000003",),
        "/config/changes/config_change_0000000003",
        "topics/orders",
        b'{"version":2,"entity_path":"topics/orders"}',
    ),
    (
        nodes.PRODUCER_IDS,
        (),
        "/latest_producer_id_block",
        ProducerIdBlock(2, 1000, 1999),
        b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}',
    ),
]


@pytest.mark.parametrize(("node", "names", "path", "value", "data"), EXAMPLES)
def test_a_node_is_written_as_kafka_writes_it(
    node: nodes.NodeType[object], names: tuple[object, ...], path: str, value: object, data: bytes
) -> None:
    assert node.path(*names) == path
    assert node.encode(value) == data
    assert node.decode(data, *names) == value


def test_a_broker_of_an_older_version_is_read() -> None:
    data = b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:1"],"host":"h","version":2,"port":1}'
    assert nodes.BROKER.decode(data) == BrokerRegistration((Endpoint("PLAINTEXT", "h", 1),), timestamp_ms=1)


def test_a_move_knows_where_it_came_from_and_where_it_goes() -> None:
    moving = Assignment((1, 2, 3)).towards((4, 2))
    assert moving == Assignment((4, 2, 1, 3), adding=(4,), removing=(1, 3))
    assert (moving.origin, moving.target) == ((2, 1, 3), (4, 2))
    assert moving.towards((5, 2)) == Assignment((5, 2, 1, 3), adding=(5,), removing=(1, 3))
    assert moving.towards(moving.origin) == Assignment((2, 1, 3))


def test_the_state_written_by_hand_is_what_json_would_write() -> None:
    data = nodes.PARTITION_STATE.encode(PartitionState(-1, 4, (), 7))
    assert json.dumps(json.loads(data), separators=(",", ":")).encode() == data


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"7", b'{"endpoints":[]}', b"\xff"])
def test_bytes_that_are_no_node_are_reported_with_its_path(data: bytes) -> None:
    with pytest.raises(RegistryFailure, match="/brokers/ids/5: the node holds"):
        nodes.BROKER.decode(data, 5)
