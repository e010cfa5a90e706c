"""A mirror file, read and checked: which flows there are between which clusters, and how each is run.

What is wrong is told by file, line and name, all of it at once and before any cluster is asked for anything.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from millstream.client.wire import parse_addresses
from millstream.config.setting import Setting, SettingError, unknown
from millstream.config.sources import Given, parse_properties
from millstream.model.ids import topic_name_fault
from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.left_alone import is_left_alone
from millstream.pipelines.mirror.policy import DEFAULT_SEPARATOR, POLICIES, Choice, DefaultPolicy, IdentityPolicy
from millstream.pipelines.running.failures import PipelineError

CLUSTERS = "clusters"
ARROW = "->"
BOOTSTRAP = "bootstrap.servers"
_SECURED = ("sasl.", "ssl.")
_PATTERNS = (s.TOPICS, s.TOPICS_EXCLUDE, s.GROUPS, s.GROUPS_EXCLUDE, s.CONFIG_EXCLUDE)


@dataclass(frozen=True, slots=True)
class Flow:
    """Topics of one cluster on their way into another; ``values`` are the settings by their names."""

    source: str
    target: str
    source_bootstrap: str
    target_bootstrap: str
    values: Mapping[str, Any]
    #: Whether there is a flow the other way, which then writes its own heartbeats.
    is_both_ways: bool = False

    @property
    def name(self) -> str:
        return f"{self.source}{ARROW}{self.target}"

    def __getitem__(self, setting: Setting[Any]) -> Any:
        return self.values[setting.name]

    @property
    def policy(self) -> DefaultPolicy:
        separator = self[s.POLICY_SEPARATOR]
        internal = separator if self[s.INTERNAL_SEPARATOR] else DEFAULT_SEPARATOR
        if POLICIES[self[s.POLICY_CLASS]] is IdentityPolicy:
            return IdentityPolicy(separator, internal, self.source)
        return DefaultPolicy(separator, internal)

    def topics(self) -> "TopicChoice":
        """Which topics are mirrored."""
        return TopicChoice(self)

    def groups(self) -> Choice:
        """Which groups are followed."""
        return Choice(self[s.GROUPS], self[s.GROUPS_EXCLUDE])

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> "Flow":
        return Flow(**json.loads(text))


class TopicChoice:
    """The topics of a flow's source that are mirrored."""

    def __init__(self, flow: Flow) -> None:
        self._target = flow.target
        self._policy = flow.policy
        self._choice = Choice(flow[s.TOPICS], flow[s.TOPICS_EXCLUDE])
        self._has_heartbeats = flow[s.MIRROR_HEARTBEATS]

    def __contains__(self, topic: str) -> bool:
        policy = self._policy
        if policy.is_internal(topic) or policy.is_cycle(topic, self._target):
            return False
        return topic in self._choice or (self._has_heartbeats and policy.is_heartbeats(topic))


class Mirror:
    """The flows of a file."""

    def __init__(self, text: str, file: str) -> None:
        """PipelineError with file, line and name where it will not do, a line for each fault."""
        self._file = file
        self._faults: list[str] = []
        self.warnings: list[str] = []
        try:
            self._given = {name: Given(value.strip(), f"{file}:{line}") for line, name, value in parse_properties(text)}
        except SettingError as error:
            raise PipelineError(f"{file}: {error}") from None
        self.clusters = self._clusters()
        self._raise_faults()  # Without clusters, nothing else in it can be understood.
        for name in self._given:
            self._check_name(name)
        self.flows = [self._flow(*pair) for pair in self._enabled()]
        if not self.flows and not self._faults:  # Else a fault may be why.
            self._faults.append(f"{file}: no flow is enabled; say for example {self._example()}.enabled = true")
        self._refuse_cycles()
        self._raise_faults()

    def _clusters(self) -> list[str]:
        given = self._given.get(CLUSTERS)
        if given is None:
            self._faults.append(f"{self._file}: no {CLUSTERS}: name them, as in {CLUSTERS} = A, B")
            return []
        names = [name.strip() for name in given.text.split(",") if name.strip()]
        if len(set(names)) < 2 or len(set(names)) < len(names):
            self._refuse(CLUSTERS, f"{given.text!r}: two different clusters or more are needed")
        for name in names:
            if topic_name_fault(name) or ARROW in name:
                self._refuse(CLUSTERS, f"{name!r}: a cluster's name has letters, digits, '_' and '-'")
        return names

    def _check_name(self, name: str) -> None:
        """What speaks of a cluster must know it; what nobody looks at is told."""
        flow, arrow, rest = name.partition(ARROW)
        if arrow:
            target = next((each for each in self.clusters if rest.startswith(f"{each}.")), rest.partition(".")[0])
            for named in (flow, target):
                self._check_cluster(name, named)
            self._check_setting(name, rest.removeprefix(target).removeprefix("."), s.TABLE)
            return
        alias = next((each for each in self.clusters if name.startswith(f"{each}.")), None)
        if alias is not None:
            self._check_client(name, name.removeprefix(f"{alias}."))
            self._check_setting(name, name.removeprefix(f"{alias}."), (BOOTSTRAP,))
        elif name.endswith(f".{BOOTSTRAP}"):
            self._check_cluster(name, name.removesuffix(f".{BOOTSTRAP}"))
        elif name != CLUSTERS:
            self._check_client(name, name)
            self._check_setting(name, name, s.TABLE)

    def _check_cluster(self, name: str, named: str) -> None:
        if named not in self.clusters:
            self._refuse(name, f"there is no cluster {named!r}, only {', '.join(self.clusters)}")

    def _check_client(self, name: str, bare: str) -> None:
        if bare == "security.protocol" and self._given[name].text.upper() != "PLAINTEXT":
            self._refuse(name, f"{self._given[name].text}: only PLAINTEXT is spoken here")
        if bare.startswith(_SECURED):
            self._refuse(name, "encryption and authentication are not spoken here")

    def _check_setting(self, name: str, bare: str, known: Collection[str]) -> None:
        if bare in known or bare.startswith(_SECURED) or is_left_alone(bare):
            return
        whose = f"{name.removesuffix(f'.{bare}')}: " if name != bare else ""
        self.warnings.append(f"{self._given[name].origin}: {whose}{unknown(bare, known)}; ignored")

    def _enabled(self) -> Iterator[tuple[str, str]]:
        for source in self.clusters:
            for target in self.clusters:
                if source != target and self._value(s.ENABLED, source, target):
                    yield source, target

    def _flow(self, source: str, target: str) -> Flow:
        values = {setting.name: self._value(setting, source, target) for setting in s.TABLE.values()}
        flow = Flow(
            source,
            target,
            self._bootstrap(source),
            self._bootstrap(target),
            values,
            is_both_ways=bool(self._value(s.ENABLED, target, source)),
        )
        self._check_separator(flow)
        for setting in _PATTERNS:
            for pattern in flow[setting]:
                try:
                    re.compile(pattern)
                except re.error as error:
                    name = self._name_of(setting, source, target)
                    self._refuse(name, f"{pattern!r} is no regular expression: {error}")
        return flow

    def _check_separator(self, flow: Flow) -> None:
        """A cluster's name must be found again in those of its topics, or what comes back is not known."""
        separator = flow.policy.separator
        for alias in (flow.source, flow.target):
            if separator in alias and not isinstance(flow.policy, IdentityPolicy):
                self._refuse(CLUSTERS, f"{alias!r} has the separator {separator!r} in it, which stands behind its name")

    def _bootstrap(self, alias: str) -> str:
        name = f"{alias}.{BOOTSTRAP}"
        given = self._given.get(name)
        if given is None or not given.text:
            self._faults.append(f"{self._file}: no {name}: where cluster {alias} is reached, as HOST:PORT")
            return ""
        try:
            parse_addresses(given.text)
        except ValueError as error:
            self._refuse(name, str(error))
        return given.text

    def _name_of(self, setting: Setting[Any], source: str, target: str) -> str:
        own = f"{source}{ARROW}{target}.{setting.name}"
        return own if own in self._given else setting.name

    def _value(self, setting: Setting[Any], source: str, target: str) -> Any:
        name = self._name_of(setting, source, target)
        given = self._given.get(name)
        if given is None or (setting is s.ENABLED and name == setting.name):
            return setting.default
        try:
            return setting.parse(given.text)
        except SettingError as error:
            self._faults.append(f"{given.origin}: {name.removesuffix(setting.name)}{error}")
            return setting.default

    def _refuse_cycles(self) -> None:
        """Where one flow of a way round does not say by its names where a topic is from, a record would never stop."""
        onward: dict[str, list[str]] = {}
        for flow in self.flows:
            onward.setdefault(flow.source, []).append(flow.target)
        for flow in self.flows:
            if isinstance(flow.policy, IdentityPolicy) and (way := _way_round(onward, [flow.source, flow.target])):
                name = self._name_of(s.ENABLED, flow.source, flow.target)
                self._refuse(name, f"a cycle, {' -> '.join(way)}, in which topics keep their names would never end")
                return

    def _example(self) -> str:
        return f"{self.clusters[0]}{ARROW}{self.clusters[1]}"

    def _refuse(self, name: str, what: str) -> None:
        self._faults.append(f"{self._given[name].origin}: {name}: {what}")

    def _raise_faults(self) -> None:
        if self._faults:
            # A name that nobody knows may be why another is missing; what is said for all flows is at fault in each.
            raise PipelineError("\n".join(dict.fromkeys([*self.warnings, *self._faults])))


def _way_round(onward: Mapping[str, list[str]], way: list[str]) -> list[str] | None:
    """A way from the first of ``way`` that comes back to it."""
    for target in onward.get(way[-1], ()):
        if target == way[0]:
            return [*way, target]
        if target not in way and (found := _way_round(onward, [*way, target])):
            return found
    return None


def read_mirror(file: str) -> Mirror:
    """The mirror that a properties file describes."""
    try:
        with open(file, encoding="utf-8") as source:
            return Mirror(source.read(), file)
    except OSError as error:
        raise PipelineError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PipelineError(f"{file}: is not text in UTF-8") from None
