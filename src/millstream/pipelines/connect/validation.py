"""Configs checked before anything runs, in the shape of Connect's ``PUT /connector-plugins/NAME/config/validate``."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from millstream.config.setting import BOOLEAN, STRING
from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Connector, Sink
from millstream.pipelines.connect.chain import below
from millstream.pipelines.connect.errors import ConnectError, Misconfigured
from millstream.pipelines.connect.options import CLASS, REQUIRED, Config, Option, parse
from millstream.pipelines.connect.patterns import compile_pattern
from millstream.pipelines.connect.plugins import Kind
from millstream.pipelines.connect.providers import HIDDEN, Providers, without
from millstream.pipelines.connect.settings import (
    CONNECTOR_CLASS,
    GROUP_ID,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    LETTERS_TOPIC,
    NAME,
    PREDICATES,
    SINK,
    SOURCE,
    TOPIC_CREATION_GROUPS,
    TOPICS,
    TOPICS_REGEX,
    TRANSFORMS,
    VALUE_CONVERTER,
    sink_group,
    topic_creation,
)

#: The names of kinds of values in forms, by their numbers in DescribeConfigs.
_TYPES = {1: "BOOLEAN", 2: "STRING", 3: "INT", 4: "SHORT", 5: "LONG", 6: "DOUBLE", 7: "LIST", 8: "CLASS", 9: "PASSWORD"}
_NO_PROVIDERS = Providers()
_PREDICATE = Option[str | None](
    "predicate", STRING, default=None, doc="The alias of the predicate that says which records are transformed."
)
_NEGATE = Option[bool](
    "negate", BOOLEAN, default=False, doc="Whether those are transformed for which the predicate does not hold."
)


def validate(
    given: Mapping[str, str | None], providers: Providers = _NO_PROVIDERS, worker_group: str = ""
) -> dict[str, Any]:
    """What is right and wrong with a connector's config; Misconfigured when it names no connector that there is.

    It may look outside, as far as the connector does to check itself.  What variables stand for is checked, not shown.
    """
    name = given.get(CONNECTOR_CLASS.name)
    if not name:
        raise Misconfigured("Connector config contains no connector type")
    connector = plugins.connector(name.strip())
    said = {key: text for key, text in given.items() if text is not None}
    resolved = providers.resolved(said)
    form = Form(resolved.config, variables={key: said[key] for key in said if resolved.config[key] != said[key]})
    form.secrets |= resolved.secrets
    form.add(SINK if issubclass(connector, Sink) else SOURCE)
    _check_steps(form, TRANSFORMS, "Transforms", Kind.TRANSFORMATION)
    _check_steps(form, PREDICATES, "Predicates", Kind.PREDICATE)
    if issubclass(connector, Sink):
        _check_topics(form)
        if sink_group(form.given) == worker_group:
            own = GROUP_ID if GROUP_ID.name in form.given else NAME
            form.blame(own.name, f"Consumer group {worker_group} conflicts with Connect worker group {worker_group}")
    else:
        _check_creation(form)
    for option in (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER):
        _check_converter(form, option, reads=issubclass(connector, Sink))
    _check_connector(form, connector)
    for key, words in resolved.errors.items():
        form.blame(key, words)
    for key, text in given.items():
        if text is None:
            form.blame(key, "Null value can not be supplied as the configuration value.")
    return form.answer(name)


def definitions(name: str) -> list[dict[str, Any]]:
    """What the config of a plugin may say, for ``GET /connector-plugins/NAME/config``."""
    plugin = plugins.any_plugin(name)
    options: list[Option[Any]] = list(plugin.options)
    if issubclass(plugin, Connector):
        own = {option.name for option in options}
        every = SINK if issubclass(plugin, Sink) else SOURCE
        options += [option for option in every if option.name not in own]
    form = Form({})
    form.add(options)
    return [row.definition for row in form.rows.values()]


@dataclass(slots=True)
class Row:
    """An option, what is said of it, and what is wrong with that."""

    option: Option[Any]
    #: Its place among those of its group.
    order: int
    value: str | None
    errors: list[str] = field(default_factory=list)

    @property
    def definition(self) -> dict[str, Any]:
        """What a form shows of the option."""
        option = self.option
        told = None if option.is_required else _text(option, option.default)
        return {
            "name": option.name,
            "type": _TYPES[option.kind.code],
            "required": option.is_required,
            "default_value": HIDDEN if told and option.is_sensitive else told,
            "importance": option.importance,
            "documentation": option.doc,
            "group": option.group,
            "width": option.width,
            "display_name": option.display or option.name,
            "dependents": [],
            "order": self.order,
        }


@dataclass(slots=True)
class Form:
    """A config as it is filled in: every option that it may have."""

    given: Mapping[str, str]
    #: What to show of options in whose place something else is given.
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    rows: dict[str, Row] = field(default_factory=dict)
    #: What is wrong with what is no option.
    stray: dict[str, list[str]] = field(default_factory=dict)
    _orders: dict[str, int] = field(default_factory=dict)

    def add(self, options: Iterable[Option[Any]], prefix: str = "", group: str | None = None) -> Config:
        """Add options, and parse what is said of them below a prefix."""
        values: dict[str, Any] = {}
        for option in options:
            shown = replace(option, name=prefix + option.name, group=option.group if group is None else group)
            config, errors = parse([shown], self.given)
            values[option.name] = config[shown]
            order = self._orders[shown.group] = self._orders.get(shown.group, 0) + 1
            wrong = errors.get(shown.name, [])
            text = self.given.get(shown.name) if wrong else _text(shown, config[shown])
            text = HIDDEN if text and shown.is_sensitive else self.variables.get(shown.name, text)
            self.rows[shown.name] = Row(shown, order, text, wrong)
        return Config(below(self.given, prefix), values)

    def blame(self, name: str, words: str) -> None:
        """Say what is wrong with an option."""
        words = words if name in words else f"{name}: {words}"
        if name in self.rows:
            self.rows[name].errors.append(words)
        else:
            self.stray.setdefault(name, []).append(words)

    def is_right(self, names: Iterable[str]) -> bool:
        """Whether nothing is wrong with these."""
        return not any(self.rows[name].errors for name in names)

    def answer(self, name: str) -> dict[str, Any]:
        """The form in Connect's shape."""
        own = {self.given.get(row.option.name, "") for row in self.rows.values() if row.option.is_sensitive}
        secrets = own | self.secrets
        configs: list[dict[str, Any]] = [
            {"definition": None, "value": _value(key, None, (), errors)} for key, errors in self.stray.items()
        ]
        for row in self.rows.values():
            errors = [without(secrets, words) for words in row.errors]
            value = _value(row.option.name, row.value, row.option.recommended, errors)
            configs.append({"definition": row.definition, "value": value})
        return {
            "name": name,
            "error_count": sum(len(config["value"]["errors"]) for config in configs),
            "groups": list(dict.fromkeys(row.option.group for row in self.rows.values())),
            "configs": configs,
        }


def _value(name: str, value: str | None, recommended: Sequence[str], errors: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "recommended_values": list(recommended),
        "errors": list(errors),
        "visible": True,
    }


def _text(option: Option[Any], value: Any) -> str | None:
    return None if value is None else option.text(value)


def _words(error: Exception) -> str:
    """What it says; of an error that is none of ours, a user's plugin's perhaps, also what it is."""
    return str(error) if isinstance(error, ConnectError) else f"{type(error).__name__}: {error}"


def _check_steps(form: Form, listing: Option[tuple[str, ...]], group: str, kind: Kind) -> None:
    """Every transform or predicate that is listed: what it is, and what may be said of it."""
    is_transform = kind is Kind.TRANSFORMATION
    for alias in dict.fromkeys(_listed(form.given, listing)):
        prefix, own_group = f"{listing.name}.{alias}.", f"{group}: {alias}"
        word = "transformation" if is_transform else "predicate"
        type_option = Option[str](
            "type",
            CLASS,
            default=REQUIRED,
            doc=f"Class for the '{alias}' {word}.",
            importance="HIGH",
            width="LONG",
            display=f"{word.capitalize()} type for {alias}",
            recommended=tuple(plugins.names(kind)),
        )
        type_name = form.add([type_option], prefix, own_group)[type_option]
        if is_transform:
            form.add([_PREDICATE, _NEGATE], prefix, own_group)
            _check_predicate(form, prefix)
        if type_name:
            _check_step(form, prefix, own_group, type_name, is_transform)


def _listed(given: Mapping[str, str], listing: Option[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(alias for alias in listing.kind.parse(given.get(listing.name, "").strip()) if alias)


def _check_step(form: Form, prefix: str, group: str, type_name: str, is_transform: bool) -> None:
    try:
        found = plugins.transform(type_name) if is_transform else plugins.predicate(type_name)
        options = [option for option in found.options if option.name not in ("predicate", "negate")]
        config = form.add(options, prefix, group)
        if not form.is_right(prefix + option.name for option in options):
            return
        wrong = found.check(config)
        for name, words in wrong.items():
            form.blame(prefix + name, words)
        if not wrong:
            found(config)
    except Exception as error:
        form.blame(f"{prefix}type", _words(error))


def _check_predicate(form: Form, prefix: str) -> None:
    named = form.given.get(f"{prefix}predicate")
    if named is None:
        if f"{prefix}negate" in form.given:
            form.blame(
                f"{prefix}negate",
                f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a predicate "
                "to be negated.",
            )
        return
    known = _listed(form.given, PREDICATES)
    if named.strip() not in known:
        words = f"the aliases in predicates are {', '.join(known)}" if known else "predicates lists none"
        form.blame(f"{prefix}predicate", f"No predicate has the alias '{named}': {words}")


def _check_converter(form: Form, option: Option[str | None], *, reads: bool) -> None:
    name = form.given.get(option.name, "").strip()
    if not name:
        return
    try:
        found = plugins.header_converter(name) if option is HEADER_CONVERTER else plugins.converter(name)
        prefix = f"{option.name}."
        config = form.add(found.options, prefix)
        if not form.is_right(prefix + one.name for one in found.options):
            return
        wrong = found.check(config, reads=reads)
        for one, words in wrong.items():
            form.blame(prefix + one, words)
        if not wrong:
            found(config)
    except Exception as error:
        form.blame(option.name, _words(error))


def _check_topics(form: Form) -> None:
    topics, pattern = _listed(form.given, TOPICS), form.given.get(TOPICS_REGEX.name, "").strip()
    letters = form.given.get(LETTERS_TOPIC.name, "").strip()
    both = (TOPICS.name, TOPICS_REGEX.name)
    if topics and pattern:
        for name in both:
            form.blame(name, "topics and topics.regex are mutually exclusive options, but both are set.")
    if not topics and not pattern:
        for name in both:
            form.blame(name, "Must configure one of topics or topics.regex")
    if letters and letters in topics:
        form.blame(
            TOPICS.name,
            f"The DLQ topic '{letters}' may not be included in the list of topics ('topics=[{', '.join(topics)}]') "
            "consumed by the connector",
        )
    if letters and pattern and form.is_right([TOPICS_REGEX.name]) and compile_pattern(pattern).fullmatch(letters):
        form.blame(
            TOPICS_REGEX.name,
            f"The DLQ topic '{letters}' may not be matched by the regex for the topics ('topics.regex={pattern}') "
            "consumed by the connector",
        )


def _check_creation(form: Form) -> None:
    """How topics are made that are not there; whoever says anything of it says it of all."""
    if not any(name.startswith("topic.creation.") for name in form.given):
        return
    for group in dict.fromkeys((*_listed(form.given, TOPIC_CREATION_GROUPS), "default")):
        form.add(topic_creation(group == "default"), f"topic.creation.{group}.", f"Topic Creation: {group}")


def _check_connector(form: Form, connector: type[Connector]) -> None:
    """The connector's own options, and then, when all are right, what it says itself."""
    shared = {name: list(row.errors) for name, row in form.rows.items()}
    config = form.add(connector.options)
    for option in connector.options:
        # What was wrong before with an option that the connector has too is still wrong.
        row = form.rows[option.name]
        row.errors += [words for words in shared.get(option.name, ()) if words not in row.errors]
    if not form.is_right(form.rows):
        return
    try:
        for name, words in connector.check(config).items():
            form.blame(name, words)
    except Exception as error:
        form.blame(CONNECTOR_CLASS.name, _words(error))
