"""A connector's settings: what may be said of it, parsed and checked before anything runs."""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

from millstream.config.setting import Kind, Setting, SettingError

T_co = TypeVar("T_co", covariant=True)


#: The default of an option that must be given.
REQUIRED: Final[Any] = object()
#: A plugin by its class: Kafka's name for one of ours, a short one, or ``package.module.Class`` for a user's own.
CLASS = Kind[str](8, "a class", str)


@dataclass(frozen=True, eq=False)
class Option(Setting[T_co], Generic[T_co]):
    """A setting with what forms show beside it."""

    _: KW_ONLY
    importance: str = "MEDIUM"
    group: str = "Connector"
    width: str = "MEDIUM"
    display: str = ""
    #: The values a form may offer.
    recommended: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True)
class Config:
    """A connector's config: what each option says, and the text of everything that was given."""

    given: Mapping[str, str]
    _values: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, option: Option[T_co]) -> T_co:
        """What the option says, given or by default."""
        return cast(T_co, self._values[option.name])

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.given["name"]


def parse(options: Iterable[Option[Any]], given: Mapping[str, str]) -> tuple[Config, dict[str, list[str]]]:
    """The config, and what is wrong with it by option; values of what is wrong are the defaults."""
    values: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for option in options:
        text = given.get(option.name)
        values[option.name] = None if option.is_required else option.default
        if text is None:
            if option.is_required:
                errors[option.name] = [f"Missing required configuration {option.name!r} which has no default value."]
            continue
        try:
            values[option.name] = option.parse(text)
        except SettingError as error:
            errors[option.name] = [str(error)]
    return Config(given, values), errors
