"""Topics that a source writes to and that are not there yet, made as its config says (``topic.creation.*``)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from millstream.client.admin import NewTopic, create_topics
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.patterns import compile_pattern
from millstream.pipelines.spark.sink.process import SinkProcess

PREFIX = "topic.creation."
DEFAULT = "default"
_GROUPS = f"{PREFIX}groups"


@dataclass(frozen=True, slots=True)
class Rule:
    """How the topics of a group are made; the first that includes a topic, and does not exclude it, counts."""

    group: str
    partitions: int
    replicas: int
    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def holds(self, topic: str) -> bool:
        return _matches(self.include, topic) and not _matches(self.exclude, topic)


def _matches(patterns: Iterable[str], topic: str) -> bool:
    return any(compile_pattern(pattern).fullmatch(topic) for pattern in patterns)


def rules_of(given: Mapping[str, str]) -> list[Rule]:
    """The rules of a config, that for all others last; none where it leaves topics to the brokers.

    Misconfigured where a rule says what cannot be, or leaves out what it must say.
    """
    if not any(name.startswith(f"{PREFIX}{DEFAULT}.") for name in given):
        return []
    names = [name.strip() for name in given.get(_GROUPS, "").split(",") if name.strip()]
    default = _rule(given, DEFAULT, None)
    return [*(_rule(given, name, default) for name in names if name != DEFAULT), default]


def _rule(given: Mapping[str, str], group: str, default: Rule | None) -> Rule:
    prefix = f"{PREFIX}{group}."
    said = {name[len(prefix) :]: text for name, text in given.items() if name.startswith(prefix)}

    def number(name: str, otherwise: int | None) -> int:
        text = said.pop(name, None)
        if text is None and otherwise is not None:
            return otherwise
        try:
            found = int(text or "")
        except ValueError:
            found = 0
        if found < 1 and found != -1:
            raise Misconfigured(
                f"{prefix}{name}={text}: must be a positive whole number, or -1 for the broker's default"
            )
        return found

    def patterns(name: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
        text = said.pop(name, None)
        return otherwise if text is None else tuple(part.strip() for part in text.split(",") if part.strip())

    partitions = number("partitions", default.partitions if default else None)
    replicas = number("replication.factor", default.replicas if default else None)
    include, exclude = patterns("include", (".*",) if default is None else ()), patterns("exclude", ())
    if default is not None and not include:
        raise Misconfigured(f"{prefix}include must say which topics the group is of")
    return Rule(group, partitions, replicas, include, exclude, said)


def ensure_topics(here: SinkProcess, rules: Iterable[Rule], topics: Iterable[str]) -> None:
    """Make those of the topics that are not there; Misconfigured when one cannot be."""
    cluster = here.coordinators.cluster
    for topic in topics:
        rule = next((rule for rule in rules if rule.holds(topic)), None)
        if rule is None:
            continue
        try:
            here.run(cluster.topic(topic))
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            new = NewTopic(topic, rule.partitions, rule.replicas, rule.settings)
            [outcome] = here.run(create_topics(cluster, [new]))
            if outcome.code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                why = outcome.detail or outcome.code.name
                raise Misconfigured(f"{PREFIX}{rule.group}: topic {topic!r} cannot be made: {why}") from None
