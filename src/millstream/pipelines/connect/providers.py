"""Values that lie outside of configs, as ``${file:/run/secrets/db:password}``: Kafka's config providers.

A worker's settings say which there are (``config.providers``).  Configs are kept and shown with the variables in them;
what these stand for is looked up where a config is checked, and in the connector's own process.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.config.setting import SettingError
from millstream.config.sources import parse_properties
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.patterns import compile_pattern, is_pattern

SETTING = "config.providers"
_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
HIDDEN = "[hidden]"
#: A shorter secret may be a part of any word, and is no secret.
_SECRET_CHARACTERS_MIN = 4

#: What stands at a path under a key; None where there is nothing, Misconfigured where nobody may look.
Lookup = Callable[[str, str], str | None]
#: Makes a provider of its parameters, and of this process's environment.
Make = Callable[[Mapping[str, str], Mapping[str, str]], Lookup]


class Resolved(NamedTuple):
    """A config whose variables were looked up."""

    config: dict[str, str]
    #: What they stood for, for whoever must not show it.
    secrets: frozenset[str] = frozenset()
    #: What is wrong, by option; such an option is left as it was.
    errors: Mapping[str, str] = {}


@dataclass(frozen=True)
class Providers:
    """The providers of a worker, by the names that variables begin with."""

    _by_name: Mapping[str, Lookup] = field(default_factory=dict)

    @staticmethod
    def of(settings: Mapping[str, str], environ: Mapping[str, str]) -> "Providers":
        """Those that a worker's settings name; SettingError when one cannot be."""
        names = [name.strip() for name in settings.get(SETTING, "").split(",") if name.strip()]
        return Providers({name: _provider(name, settings, environ) for name in names})

    def resolved(self, config: Mapping[str, str]) -> Resolved:
        """The config with what its variables stand for; those of providers that there are not are text."""
        found: dict[str, str] = {}
        secrets: set[str] = set()
        errors: dict[str, str] = {}

        def looked_up(variable: re.Match[str]) -> str:
            lookup = self._by_name.get(variable[1])
            if lookup is None:
                return variable[0]
            value = lookup(variable[2] or "", variable[3])
            if value is None:
                raise Misconfigured(f"{variable[0]}: there is no such key")
            secrets.add(value)
            return value

        for option, text in config.items():
            try:
                found[option] = _VARIABLE.sub(looked_up, text)
            except Misconfigured as error:
                found[option] = text
                errors[option] = str(error)
        return Resolved(found, frozenset(secrets), errors)


def settings_of(given: Mapping[str, str]) -> dict[str, str]:
    """What among a worker's settings is about providers."""
    return {name: text for name, text in given.items() if name == SETTING or name.startswith(f"{SETTING}.")}


def without(secrets: Iterable[str], words: str) -> str:
    """The words with nothing of the secrets in them."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SECRET_CHARACTERS_MIN:
            words = words.replace(secret, HIDDEN)
    return words


def _provider(name: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> Lookup:
    prefix = f"{SETTING}.{name}."
    class_name = settings.get(f"{prefix}class", "").strip()
    make = _CLASSES.get(class_name.removeprefix("org.apache.kafka.common.config.provider."))
    if make is None:
        raise SettingError(f"{prefix}class={class_name}: must be one of {', '.join(_CLASSES)}")
    params = f"{prefix}param."
    try:
        return make({key[len(params) :]: text for key, text in settings.items() if key.startswith(params)}, environ)
    except SettingError as error:
        raise SettingError(f"{params}{error}") from None


def _files(params: Mapping[str, str], environ: Mapping[str, str]) -> Lookup:
    """``${file:PATH:KEY}``: a key of a properties file."""
    allowed = _Allowed.of(params)

    def look(path: str, key: str) -> str | None:
        try:
            with open(allowed.checked(path), encoding="utf-8") as file:
                return {name: value for _, name, value in parse_properties(file.read())}.get(key)
        except (OSError, ValueError) as error:
            raise Misconfigured(f"the properties file {path} cannot be read: {_why(error)}") from None

    return look


def _folders(params: Mapping[str, str], environ: Mapping[str, str]) -> Lookup:
    """``${dir:PATH:FILE}``: all that a file of a folder holds."""
    allowed = _Allowed.of(params)

    def look(path: str, key: str) -> str | None:
        if key != os.path.basename(key):
            return None
        try:
            with open(os.path.join(allowed.checked(path), key), encoding="utf-8", newline="") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Misconfigured(f"{key} in the folder {path} cannot be read: {_why(error)}") from None

    return look


def _environment(params: Mapping[str, str], environ: Mapping[str, str]) -> Lookup:
    """``${env:NAME}``: a variable of the worker's environment."""
    text = params.get("allowlist.pattern", ".*")
    if not is_pattern(text):
        raise SettingError(f"allowlist.pattern={text}: must be a regular expression")
    pattern = compile_pattern(text)

    def look(path: str, key: str) -> str | None:
        if path:
            raise Misconfigured(f"variables of the environment have no path, and {path!r} is given")
        return environ.get(key) if pattern.fullmatch(key) else None

    return look


class _Allowed(NamedTuple):
    """Where a provider may look: anywhere, or below some paths."""

    paths: tuple[str, ...] | None

    @staticmethod
    def of(params: Mapping[str, str]) -> "_Allowed":
        text = params.get("allowed.paths", "")
        if not text:
            return _Allowed(None)
        paths = tuple(os.path.normpath(path) for path in text.split(","))
        for path in paths:
            if not os.path.isabs(path) or not os.path.exists(path):
                raise SettingError(f"allowed.paths={text}: {path} must be absolute, and there")
        return _Allowed(paths)

    def checked(self, path: str) -> str:
        """The path; Misconfigured where nobody may look there."""
        if self.paths is None:
            return path
        normal = os.path.normpath(path)
        if not any(normal == each or normal.startswith(each.rstrip("/") + "/") for each in self.paths):
            raise Misconfigured(f"allowed.paths does not have the path {path}")
        return normal


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


#: By the last word of Kafka's names.
_CLASSES: Mapping[str, Make] = {
    "FileConfigProvider": _files,
    "DirectoryConfigProvider": _folders,
    "EnvVarConfigProvider": _environment,
}
