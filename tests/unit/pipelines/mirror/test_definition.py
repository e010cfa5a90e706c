"""Mirror files: MirrorMaker's names and defaults, and one line for whatever will not do."""

import pytest

from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.definition import Flow, Mirror
from millstream.pipelines.mirror.policy import IdentityPolicy
from millstream.pipelines.running.failures import PipelineError

BOTH = """
clusters = A, B
A.bootstrap.servers = one:9092, two:9092
B.bootstrap.servers = three:9092
A->B.enabled = true
"""


def flow_of(more: str = "") -> Flow:
    return Mirror(BOTH + more, "m.properties").flows[0]


def refusal(text: str) -> str:
    with pytest.raises(PipelineError) as refused:
        Mirror(text, "m.properties")
    return str(refused.value)


def test_a_flow_has_its_clusters_and_mirrormakers_defaults() -> None:
    flow = flow_of()
    assert (flow.name, flow.source_bootstrap, flow.target_bootstrap) == ("A->B", "one:9092, two:9092", "three:9092")
    assert not flow.is_both_ways
    assert flow[s.REFRESH_TOPICS_S] == 600
    assert flow[s.SYNC_GROUP_OFFSETS] is False
    topics = flow.topics()
    chosen = ("orders", "heartbeats", "B.orders", "__x", "a.replica", "mm2-offset-syncs.B.internal", "C.orders")
    assert [name for name in chosen if name in topics] == ["orders", "heartbeats", "C.orders"]
    assert "payers" in flow.groups()
    assert "console-consumer-7" not in flow.groups()


def test_what_is_said_of_one_flow_goes_before_what_is_said_of_all() -> None:
    mirror = Mirror(BOTH + "B->A.enabled=true\ntopics = orders\nB->A.topics = pay.*, x\nreplication.factor=3\n", "f")
    forth, back = mirror.flows
    assert (forth[s.TOPICS], back[s.TOPICS]) == (("orders",), ("pay.*", "x"))
    assert forth[s.REPLICATION_FACTOR] == 3
    assert forth.is_both_ways
    assert "B.orders" not in forth.topics()
    assert "heartbeats" in forth.topics()


def test_topics_may_keep_their_names_one_way() -> None:
    flow = flow_of("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n")
    assert flow.policy == IdentityPolicy(source="A")


def test_a_flow_survives_its_way_to_its_process() -> None:
    flow = flow_of("A->B.topics = a, b\n")
    again = Flow.from_text(flow.to_text())
    assert again.policy == flow.policy
    assert "a" in again.topics()
    assert again.to_text() == flow.to_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "m.properties: no clusters: name them, as in clusters = A, B"),
        ("clusters = A", "m.properties:1: clusters: 'A': two different clusters or more are needed"),
        ("clusters = A, B", "m.properties: no flow is enabled; say for example A->B.enabled = true"),
        ("clusters=A,B\nA->C.enabled=true", "m.properties:2: A->C.enabled: there is no cluster 'C', only A, B"),
        (BOTH + "A->C.enabled = true", "m.properties:6: A->C.enabled: there is no cluster 'C', only A, B"),
        (BOTH + "C.bootstrap.servers = x:1", "m.properties:6: C.bootstrap.servers: there is no cluster 'C', only A, B"),
        (
            "clusters=A,B\nA.bootstrap.servers=x:1\nA->B.enabled=true",
            "m.properties: no B.bootstrap.servers: where cluster B is reached, as HOST:PORT",
        ),
        (BOTH + "B.bootstrap.servers=x:y", "m.properties:6: B.bootstrap.servers: 'x:y' is not HOST:PORT"),
        (
            BOTH + "A->B.refresh.topics.interval.seconds=soon",
            "m.properties:6: A->B.refresh.topics.interval.seconds=soon: must be a whole number of at most 64 bits, "
            "at least 1",
        ),
        (
            BOTH + "topics = (",
            "m.properties:6: topics: '(' is no regular expression: missing ), unterminated subpattern",
        ),
        (BOTH + "A.security.protocol=SSL", "m.properties:6: A.security.protocol: SSL: only PLAINTEXT is spoken here"),
        (
            BOTH + "B->A.enabled=true\nreplication.policy.class=IdentityReplicationPolicy",
            "m.properties:5: A->B.enabled: a cycle, A -> B -> A, in which topics keep their names would never end",
        ),
        (
            BOTH + "B->A.enabled=true\nB->A.replication.policy.class=IdentityReplicationPolicy",
            "m.properties:6: B->A.enabled: a cycle, B -> A -> B, in which topics keep their names would never end",
        ),
        (
            BOTH.replace("B", "b.c"),
            "m.properties:2: clusters: 'b.c' has the separator '.' in it, which stands behind its name",
        ),
    ],
)
def test_what_will_not_do_is_told_in_a_line(text: str, said: str) -> None:
    assert refusal(text).startswith(said)
    assert "\n" not in refusal(text)


def test_a_cycle_over_three_clusters_is_found() -> None:
    text = "clusters=A,B,C\n" + "".join(f"{name}.bootstrap.servers=h:1\n" for name in "ABC")
    text += "A->B.enabled=true\nB->C.enabled=true\nC->A.enabled=true\n"
    assert len(Mirror(text, "f").flows) == 3
    assert "a cycle, A -> B -> C -> A" in refusal(text + "replication.policy.class=IdentityReplicationPolicy\n")


def test_all_faults_are_told_at_once_each_in_its_line_and_once() -> None:
    more = """B->A.enabled = true
topics = (
A.security.protocol = SSL
A->C.topics = x
B->A.tasks.max = many
groups = [
"""
    text = BOTH.replace("B.bootstrap.servers", "B.bootstrap.server") + more
    assert [line.partition(" is no regular")[0] for line in refusal(text).splitlines()] == [
        "m.properties:4: B: unknown setting 'bootstrap.server'; did you mean 'bootstrap.servers'?; ignored",
        "m.properties:8: A.security.protocol: SSL: only PLAINTEXT is spoken here",
        "m.properties:9: A->C.topics: there is no cluster 'C', only A, B",
        "m.properties: no B.bootstrap.servers: where cluster B is reached, as HOST:PORT",
        "m.properties:7: topics: '('",
        "m.properties:11: groups: '['",
        "m.properties:10: B->A.tasks.max=many: must be a whole number of at most 32 bits, at least 1",
    ]


def test_every_name_that_nobody_knows_is_told() -> None:
    more = """sync.topic.config.enabled = false
nonsense = 1
A->B.nonsense = 1
B.bootstrap.server = x
B.topics = x
C.consumer.fetch.min.bytes = 1
A->B = true
config.propertie.exclude = x
"""
    assert Mirror(BOTH + more, "f").warnings == [
        "f:6: unknown setting 'sync.topic.config.enabled'; did you mean 'sync.topic.configs.enabled'?; ignored",
        "f:7: unknown setting 'nonsense'; ignored",
        "f:8: A->B: unknown setting 'nonsense'; ignored",
        "f:9: B: unknown setting 'bootstrap.server'; did you mean 'bootstrap.servers'?; ignored",
        "f:10: B: unknown setting 'topics'; ignored",
        "f:11: unknown setting 'C.consumer.fetch.min.bytes'; ignored",
        "f:12: A->B: unknown setting ''; ignored",
        "f:13: unknown setting 'config.propertie.exclude'; did you mean 'config.properties.exclude'?; ignored",
    ]


@pytest.mark.parametrize("before", ["", "A.", "A->B."])
def test_names_that_are_mirrormakers_own_are_left_alone(before: str) -> None:
    names = (
        *("consumer.fetch.min.bytes", "sync.topic.acls.enabled", "offset.lag.max", "client.id", "security.protocol"),
        *(
            "offset.storage.replication.factor",
            "dedicated.mode.enable.internal.rest",
            "transforms",
            "request.timeout.ms",
        ),
        *("config.storage.topic", "max.poll.records", "topic.filter.class", "key.converter", "metric.reporters"),
    )
    values = {"security.protocol": "PLAINTEXT"}
    more = "".join(f"{before}{name} = {values.get(name, '1')}\n" for name in names)
    assert Mirror(BOTH + more, "f").warnings == []
