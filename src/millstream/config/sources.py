"""Where settings come from: the command line, the environment, a properties file.

An environment variable is named after its setting: ``MILLSTREAM_`` and the name in capitals with underscores for
dots, as ``MILLSTREAM_LOG_SEGMENT_BYTES`` for ``log.segment.bytes``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from millstream.config.setting import SettingError, unknown

ENVIRONMENT_PREFIX = "MILLSTREAM_"
#: How variables begin that are not a broker's settings: those of clients and pipelines, of benchmarks and tests.
NOT_SETTINGS = tuple(
    ENVIRONMENT_PREFIX + name for name in ("BOOTSTRAP", "CHECKPOINTS", "SPARK_LOG_LEVEL", "BENCH_", "TEST_")
)


class Source(IntEnum):
    """Which layer a value is from, by DescribeConfigs' numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Given(NamedTuple):
    """A value as it was given, and where, in words for an error."""

    text: str
    origin: str


def from_set(assignments: Iterable[str] | Mapping[str, str], known: Collection[str]) -> dict[str, Given]:
    """The settings of ``--set name=value`` (or a mapping); the last of a name counts."""
    pairs = assignments.items() if isinstance(assignments, Mapping) else map(_assignment, assignments)
    found = {}
    for name, text in pairs:
        if name not in known:
            raise SettingError(f"--set {name}: {unknown(name, known)}")
        found[name] = Given(text, "--set")
    return found


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(f"--set {text}: must be name=value")
    return name.strip(), value


def variable_of(name: str) -> str:
    """The environment variable for a setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def from_environment(environ: Mapping[str, str], known: Collection[str]) -> dict[str, Given]:
    """The settings among the environment's variables."""
    names = {variable_of(name): name for name in known}
    found = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(NOT_SETTINGS):
            continue
        if variable not in names:
            raise SettingError(f"environment: {unknown(variable, names)}")
        found[names[variable]] = Given(text, f"environment {variable}")
    return found


def from_properties(path: str, known: Collection[str], warnings: list[str]) -> dict[str, Given]:
    """The known settings of a properties file; a line is added to ``warnings`` for each unknown one."""
    try:
        with open(path, encoding="utf-8") as file:
            content = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"properties file {path}: {error}") from error
    found = {}
    for line, name, text in parse_properties(content):
        if name in known:
            found[name] = Given(text, f"{path}:{line}")
        else:
            warnings.append(f"{path}:{line}: {unknown(name, known)}; ignored")
    return found


def merged(layers: Iterable[Mapping[str, Given]]) -> dict[str, Given]:
    """One mapping of many, the first that has a name winning."""
    result: dict[str, Given] = {}
    for layer in layers:
        for name, given in layer.items():
            result.setdefault(name, given)
    return result


_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(content: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name and value of each entry, read as Java reads a properties file."""
    for number, line in _logical_lines(content):
        at = 0
        while at < len(line) and line[at] not in "=:" + _BLANKS:
            at += 2 if line[at] == "\\" else 1
        value = line[at:].lstrip(_BLANKS)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANKS)
        yield number, _unescaped(line[:at]), _unescaped(value)


def _logical_lines(content: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined on, without comments and blank lines; the number is the first's."""
    joined, start = "", 0
    for number, natural in enumerate(content.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        text = natural.lstrip(_BLANKS)
        if not start and (not text or text[0] in "#!"):
            continue
        start = start or number
        joined += text
        if (len(text) - len(text.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield start, joined
        joined, start = "", 0
    if start and joined:
        yield start, joined


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char)
            continue
        char = text[at]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise SettingError(f"\\u{digits}: must be four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
