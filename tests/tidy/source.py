"""The project's own text, as the tidy tests read it: parsed once, whatever git tracks or is about to."""

import ast
import gc
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "millstream"


class Module(NamedTuple):
    """A module of the package."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        """Its path below the package, as ``storage/log.py``."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def room(self) -> str:
        """The folder at the top of it; a module of none is a room by itself."""
        return self.name.split("/")[0].removesuffix(".py")

    @property
    def dotted(self) -> str:
        """As it is imported."""
        return "millstream." + self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def parsed(path: Path) -> ast.Module:
    """A file's tree. Python 3.11 loses count of its depth, now and then, where other code runs while one is made:
    what tests before have left behind is not collected meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(), str(path))
    finally:
        if was_enabled:
            gc.enable()


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    return tuple(Module(path, parsed(path)) for path in sorted(PACKAGE.rglob("*.py")))


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a module imports, also inside functions and for types only."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}:{node.lineno}: imports are written in full"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that git tracks and that is there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def python_files() -> Iterator[Path]:
    """Every Python file of the project: the package, the tests, the benchmarks."""
    for folder in ("src", "tests", "bench"):
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts)


def none(found: list[str]) -> None:
    """Fail with every finding, a line each."""
    assert not found, "\n".join(["", *found])
