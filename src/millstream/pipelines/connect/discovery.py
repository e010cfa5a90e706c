"""A user's own connectors, found in the folders of ``--plugin-path`` so that they are listed before they are used."""

import inspect
import logging
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from millstream.pipelines.connect.base import Sink, Source
from millstream.pipelines.connect.plugins import Kind, Plugin

logger = logging.getLogger(__name__)

#: What a module of connectors imports from; any other that lies there, a whole library perhaps, is let be.
_MARK = b"millstream.pipelines.connect"


def discovered(folders: Iterable[str]) -> list[Plugin]:
    """The connectors of the modules below these folders, which must be on Python's path.

    A module that cannot be imported is told of in the log, and disturbs no other.
    """
    found: dict[str, Plugin] = {}
    for folder in map(Path, folders):
        for file in sorted(folder.rglob("*.py")):
            for plugin in _plugins_of(file, _module_name(file.relative_to(folder))):
                found.setdefault(plugin.name, plugin)
    return list(found.values())


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _plugins_of(file: Path, name: str) -> Iterator[Plugin]:
    is_importable = all(part.isidentifier() and part != "__main__" for part in name.split("."))
    if not is_importable or name.partition(".")[0] == "millstream":
        return
    try:
        if _MARK not in file.read_bytes():
            return
        module = import_module(name)
    except (Exception, SystemExit) as error:
        # Whatever a user's module does while it is imported.
        logger.warning("the connectors of %s are not listed: %s: %s", file, type(error).__name__, error)
        return
    yield from _connectors_in(module)


def _connectors_in(module: ModuleType) -> Iterator[Plugin]:
    for name, each in vars(module).items():
        is_own = isinstance(each, type) and each.__module__ == module.__name__ and not name.startswith("_")
        if is_own and issubclass(each, Source | Sink) and not inspect.isabstract(each):
            kind = Kind.SOURCE if issubclass(each, Source) else Kind.SINK
            yield Plugin(f"{module.__name__}.{name}", kind, f"{module.__name__}:{name}", version=each.version)
