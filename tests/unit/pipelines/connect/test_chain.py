"""Records on their way between a connector and a topic, and what becomes of those that fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from millstream.pipelines.connect.chain import Raw, SinkChain, SourceChain, Surroundings
from millstream.pipelines.connect.errors import DataError, Misconfigured, Unreachable
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import INT64, STRING, Schema, Type, struct
from millstream.pipelines.connect.tolerance import Intolerable
from millstream.pipelines.connect.transforms.base import Transform

CONFIG = {
    "name": "orders",
    "connector.class": "FileSink",
    "topics": "orders",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
TOLERANT = {
    **CONFIG,
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.context.headers.enable": "true",
}
HERE = __name__


class Faltering(Transform):
    """Fails with what the test puts here, one after the other."""

    failures: list[Exception]

    def apply(self, record: Record) -> Record:
        if self.failures:
            raise self.failures.pop(0)
        return record


@dataclass
class World:
    """Time that passes when somebody waits, and a log."""

    now_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_s += seconds

    def around(self) -> Surroundings:
        return Surroundings(self, self.wait, lambda line, error: self.log.append(f"{line} {error}"))


def raw(value: bytes | None = b'{"id":5}', offset: int = 42) -> Raw:
    return Raw("orders", b"k", value, [("h", b"12")], partition=3, offset=offset, timestamp_ms=1000)


def sink(config: Mapping[str, str], world: World | None = None, **more: str) -> SinkChain:
    told = {name.replace("_", "."): text for name, text in more.items()}
    return SinkChain({**config, **told}, (world or World()).around(), task=2)


def source(config: Mapping[str, str], world: World | None = None) -> SourceChain:
    return SourceChain(config, (world or World()).around())


def test_a_sink_is_given_data_and_all_that_is_known_of_it() -> None:
    assert sink(CONFIG).decode(raw()) == Record(
        "orders",
        {"id": 5},
        "k",
        key_schema=STRING.as_optional(),
        headers=[Header("h", 12, Schema(Type.INT8))],
        partition=3,
        offset=42,
        timestamp_ms=1000,
        origin="orders",
    )


def test_a_sources_records_become_bytes() -> None:
    record = Record("orders", {"id": 5}, "k", headers=[Header("h", [1, "a"])], partition=1, timestamp_ms=7)
    assert source(CONFIG).encode(record) == Raw(
        "orders", b"k", b'{"id":5}', [("h", b'[1,"a"]')], partition=1, timestamp_ms=7
    )


def test_without_a_converter_json_with_schemas_is_meant() -> None:
    bare = {"name": "orders", "connector.class": "FileSource"}
    schema = struct(id=INT64)
    made = source(bare).encode(Record("orders", {"id": 5}, value_schema=schema))
    assert made is not None
    assert made.value is not None
    assert made.value.startswith(b'{"schema":{"type":"struct"')
    found = sink({**bare, "topics": "orders"}).decode(Raw("orders", None, made.value))
    assert found is not None
    assert (found.value, found.value_schema) == ({"id": 5}, schema)


def test_transforms_are_passed_in_order_and_by_predicate() -> None:
    config = {
        **CONFIG,
        "transforms": "hoist, drop,rename",
        "transforms.hoist.type": "HoistField$Value",
        "transforms.hoist.field": "in",
        "transforms.drop.type": "Filter",
        "transforms.drop.predicate": "is_dead",
        "transforms.rename.type": "RegexRouter",
        "transforms.rename.regex": "(.*)",
        "transforms.rename.replacement": "new-$1",
        "transforms.rename.predicate": "has_header",
        "transforms.rename.negate": "true",
        "predicates": "is_dead,has_header",
        "predicates.is_dead.type": "TopicNameMatches",
        "predicates.is_dead.pattern": "dead.*",
        "predicates.has_header.type": "HasHeaderKey",
        "predicates.has_header.name": "h",
    }
    chain = source(config)
    kept = chain.encode(Record("orders", 1))
    assert kept is not None
    assert (kept.topic, kept.value) == ("new-orders", b'{"in":1}')
    assert chain.encode(Record("dead-orders", 1)) is None
    with_header = chain.encode(Record("orders", 1, headers=[Header("h", 1)]))
    assert with_header is not None
    assert with_header.topic == "orders"
    assert [made.topic for made in chain.encode_all([Record("a", 1), Record("dead", 1), Record("b", 1)])] == [
        "new-a",
        "new-b",
    ]
    assert chain.counts.total_record_errors == 0, "to be let go is no error"


BROKEN: dict[str, tuple[dict[str, str], Raw, str]] = {
    "KEY_CONVERTER": (
        {"key.converter": "JsonConverter"},
        raw(),
        "JsonConverter",
    ),
    "VALUE_CONVERTER": ({}, raw(b"{"), "JsonConverter"),
    "HEADER_CONVERTER": (
        {"header.converter": "org.apache.kafka.connect.json.JsonConverter"},
        Raw("orders", b"k", b"1", [("h", b"{")], 3, 42),
        "org.apache.kafka.connect.json.JsonConverter",
    ),
    "TRANSFORMATION": (
        {"transforms": "f", "transforms.f.type": "ReplaceField$Value"},
        raw(b"1"),
        "ReplaceField$Value",
    ),
}


@pytest.mark.parametrize("stage", BROKEN)
def test_a_record_that_fails_becomes_a_dead_letter_with_its_story(stage: str) -> None:
    config, failing, class_name = BROKEN[stage]
    chain = sink({**TOLERANT, **config})
    assert chain.decode(failing) is None
    (letter,) = chain.take_letters()
    assert chain.take_letters() == []
    assert (letter.topic, letter.key, letter.value) == ("dead", failing.key, failing.value)
    assert (letter.partition, letter.timestamp_ms) == (None, failing.timestamp_ms)
    assert letter.headers[: len(failing.headers)] == failing.headers
    told = {name: text.decode() for name, text in letter.headers[len(failing.headers) :] if text is not None}
    trace = told.pop("__connect.errors.exception.stacktrace")
    assert "Traceback" in trace
    assert told.pop("__connect.errors.exception.message") in trace
    assert told == {
        "__connect.errors.topic": "orders",
        "__connect.errors.partition": "3",
        "__connect.errors.offset": "42",
        "__connect.errors.connector.name": "orders",
        "__connect.errors.task.id": "2",
        "__connect.errors.stage": stage,
        "__connect.errors.class.name": class_name,
        "__connect.errors.exception.class.name": "millstream.pipelines.connect.errors.DataError",
    }


def test_those_that_fail_do_not_hold_up_the_others() -> None:
    chain = sink(TOLERANT)
    found = list(chain.decode_all([raw(offset=1), raw(b"{", offset=2), raw(offset=3)]))
    assert [record.offset for record in found] == [1, 3]
    assert len(chain.take_letters()) == 1
    assert (chain.counts.total_records_skipped, chain.counts.total_record_failures) == (1, 1)


def test_a_letter_tells_nothing_unless_asked() -> None:
    chain = sink({**TOLERANT, "errors.deadletterqueue.context.headers.enable": "false"})
    assert chain.decode(raw(b"{")) is None
    assert chain.take_letters() == [Raw("dead", b"k", b"{", [("h", b"12")], timestamp_ms=1000)]


def test_without_a_topic_for_them_there_are_no_letters() -> None:
    chain = sink({**CONFIG, "errors.tolerance": "all"})
    assert chain.decode(raw(b"{")) is None
    assert chain.take_letters() == []


def test_without_tolerance_the_first_failure_is_the_end() -> None:
    chain = sink({**TOLERANT, "errors.tolerance": "none"})
    with pytest.raises(Intolerable, match="Executing stage 'VALUE_CONVERTER' with class 'JsonConverter'") as raised:
        chain.decode(raw(b"{"))
    assert raised.value.is_final
    assert isinstance(raised.value.__cause__, DataError)
    assert len(chain.take_letters()) == 1, "and it is to be found among the dead letters all the same"


def test_what_a_sink_cannot_take_is_a_dead_letter_too() -> None:
    chain = sink(TOLERANT)
    chain.reject(raw(), DataError("no such column"))
    (letter,) = chain.take_letters()
    assert ("__connect.errors.stage", b"TASK_PUT") in letter.headers
    assert ("__connect.errors.class.name", b"FileSink") in letter.headers
    assert ("__connect.errors.exception.message", b"no such column") in letter.headers
    with pytest.raises(Intolerable, match="no such column"):
        sink(CONFIG).reject(raw(), DataError("no such column"))


def test_a_source_passes_over_what_fails() -> None:
    chain = source({**CONFIG, "errors.tolerance": "all"})
    made = list(chain.encode_all([Record("t", 1), Record("t", object()), Record("t", 2)]))
    assert [one.value for one in made] == [b"1", b"2"]
    with pytest.raises(Intolerable):
        source(CONFIG).encode(Record("t", object()))


def test_errors_are_logged_when_asked_and_records_only_then_too() -> None:
    world = World()
    assert sink({**TOLERANT, "errors.log.enable": "true"}, world).decode(raw(b"{")) is None
    assert world.log[0].startswith(
        "Error encountered in task orders-2. Executing stage 'VALUE_CONVERTER' with class 'JsonConverter'. "
    )
    told = {"errors.log.enable": "true", "errors.log.include.messages": "true"}
    assert sink({**TOLERANT, **told}, world).decode(raw(b"{")) is None
    assert "consumed record is {topic='orders', partition=3, offset=42, timestamp=1000}" in world.log[1]
    assert sink(TOLERANT, world).decode(raw(b"{")) is None
    assert len(world.log) == 2


def faltering(failures: list[Exception], timeout_ms: int, world: World) -> SinkChain:
    Faltering.failures = failures
    config = {"transforms": "f", "transforms.f.type": f"{HERE}.Faltering", "errors.retry.timeout": str(timeout_ms)}
    return sink({**TOLERANT, **config}, world)


def test_who_does_not_answer_is_asked_again_later_and_later() -> None:
    world = World()
    chain = faltering([Unreachable("no answer")] * 4, 60_000, world)
    assert chain.decode(raw()) is not None
    assert world.waits_s == [0.3, 0.6, 1.2, 2.4]
    assert chain.counts.total_retries == 4
    assert chain.take_letters() == []


def test_patience_ends_at_its_deadline() -> None:
    world = World()
    chain = faltering([Unreachable("no answer")] * 100, 1000, world)
    assert chain.decode(raw()) is None
    assert world.now_s == pytest.approx(1.0)
    assert len(chain.take_letters()) == 1


def test_without_a_timeout_nothing_is_tried_again() -> None:
    world = World()
    assert faltering([Unreachable("no answer")], 0, world).decode(raw()) is None
    assert world.waits_s == []


def test_patience_may_be_endless_but_no_wait_is_longer_than_said() -> None:
    world = World()
    Faltering.failures = [Unreachable("no answer")] * 50
    config = {"transforms": "f", "transforms.f.type": f"{HERE}.Faltering", "errors.retry.timeout": "-1"}
    chain = sink({**TOLERANT, **config, "errors.retry.delay.max.ms": "1000"}, world)
    assert chain.decode(raw()) is not None
    assert max(world.waits_s) == 1.0


def test_a_users_own_mistake_is_tolerated_and_a_wrong_config_is_not() -> None:
    assert faltering([KeyError("oops")], 0, World()).decode(raw()) is None
    with pytest.raises(Misconfigured):
        faltering([Misconfigured("no such field")], 0, World()).decode(raw())


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"value.converter": "NoSuch"}, "NoSuch"),
        ({"transforms": "a"}, "transforms.a.type is missing"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value"}, "spec"),
        ({"transforms": "a", "transforms.a.type": "InsertField$Value"}, "No field insertion"),
        (
            {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"},
            "predicates.p.type is missing",
        ),
        ({"errors.tolerance": "some"}, "errors.tolerance=some"),
    ],
)
def test_a_config_that_cannot_work_is_no_chain(config: dict[str, str], complaint: str) -> None:
    builders: tuple[Callable[[Mapping[str, str]], object], ...] = (sink, source)
    for build in builders:
        with pytest.raises(Misconfigured, match=complaint):
            build({**CONFIG, **config})
