"""A pipeline's YAML file: what it may say, and how what is wrong is told."""

from textwrap import dedent

import pytest

from millstream.pipelines.running.definition import parse, view_name
from millstream.pipelines.running.failures import PipelineError

WHOLE = """
name: per-shop
bootstrap: broker:9092
source:
  - topic: web-orders
    schema: id long, shop long
    key: customer string
    options: {maxOffsetsPerTrigger: 1000, failOnDataLoss: false}
  - topic: shops
    as: places
    read: latest
    key: shop long
    schema: city string
sql: |
  SELECT * FROM web_orders JOIN places USING (shop)
sink:
  topic: out
  key: customer
trigger: 500 milliseconds
delivery: at-least-once
conf: {spark.driver.memory: 2g}
"""


def refusal(text: str) -> str:
    with pytest.raises(PipelineError) as caught:
        parse(dedent(text), "p.yaml")
    return str(caught.value)


def test_everything_that_can_be_said() -> None:
    definition = parse(WHOLE, "p.yaml")
    assert [view_name(source) for source in definition.sources] == ["web_orders", "places"]
    assert definition.sources[0]["options"] == {"maxOffsetsPerTrigger": "1000", "failOnDataLoss": "false"}
    assert definition.whole["conf"] == {"spark.driver.memory": "2g"}
    assert definition.whole["sql"].startswith("SELECT")
    assert definition.sink.given("topic", "key", "mode") == {"topic": "out", "key": "customer"}
    assert str(definition.sink.error("key", "no such column")) == "p.yaml:18: sink.key: no such column"


def test_one_source_needs_no_list_and_no_sql() -> None:
    assert len(parse("source: {topic: a}\nsink: {topic: b}", "p.yaml").sources) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.yaml: is empty; it needs source and sink"),
        ("source: [", "p.yaml:1: not YAML: "),
        ("- 1", "p.yaml:1: must be a mapping with name, bootstrap, source"),
        ("sink: {topic: b}", "p.yaml:1: no source: the topic to read, or a list of them"),
        ("source: {topic: a}\nsnik: {topic: b}", "p.yaml:2: snik: unknown key; did you mean sink?"),
        (
            "source:\n  topic: a\n  formt: json\nsink: {topic: b}",
            "p.yaml:3: source.formt: unknown key; did you mean fo",
        ),
        ("source:\n  topic: a\n  format: xml\nsink: {topic: b}", "p.yaml:3: source.format: 'xml': one of json, avro"),
        ("source:\n  - topic: a\n  - tpoic: b\nsink: {topic: b}", "p.yaml:3: source.1.tpoic: unknown key"),
        ("source: {topic: a}\nsink:\n  key: x", "p.yaml:3: sink: no topic: which topic to write"),
        ("source: {topic: a}\nsink: {topic: b}\nsink: {topic: c}", "p.yaml:3: sink: is there twice, on line 2 before"),
        ("source: {topic: }\nsink: {topic: b}", "p.yaml:1: source.topic: must be text"),
        ("source: {topic: a}\nsink: {topic: b}\ntrigger: often", "p.yaml:3: trigger: 'often': available-now, or a"),
        ("source: {topic: a}\nsink: {topic: b}\ndelivery: maybe", "p.yaml:3: delivery: 'maybe': one of exactly-once"),
        ("name: a/b\nsource: {topic: a}\nsink: {topic: b}", "p.yaml:1: name: 'a/b': a name has letters"),
        ("source: {topic: a}\nsink: {topic: b, options: [1]}", "p.yaml:2: sink.options: must be a mapping of names"),
        (
            "source:\n  topic: a\n  options: {maxOffsetPerTrigger: 10}\nsink: {topic: b}",
            "p.yaml:3: source.options: maxoffsetpertrigger=10: unknown option; did you mean maxOffsetsPerTrigger?",
        ),
        (
            "source: {topic: a}\nsink:\n  topic: b\n  options: {kafka.acks: some}",
            "p.yaml:4: sink.options: kafka.acks=some: ",
        ),
        ("source: []\nsink: {topic: b}", "p.yaml:1: source: an empty list"),
        ("source: [{topic: a}, {topic: b}]\nsink: {topic: c}", "p.yaml:1: source: several sources need sql"),
        ("source: [{topic: a-b}, {topic: a.b}]\nsql: x\nsink: {topic: c}", "p.yaml:1: source.1.as: two sources are "),
        ("source: {topic: 1st}\nsink: {topic: c}", "p.yaml:1: source.topic: '1st' is no name in SQL"),
        ("source: {topic: a, read: latest}\nsink: {topic: c}", "p.yaml:1: source.read: the latest record of each key"),
        ("source: {topic: a, read: latest, key: k int}\nsink: {topic: c}", "p.yaml:1: source: no source is a stream"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_key(text: str, message: str) -> None:
    assert refusal(text).startswith(message)
