"""Names and docstrings: a reader is told what each thing promises."""

import ast
from collections.abc import Iterator

from tests.tidy.source import ROOT, Module, modules, none, python_files

#: Names that say nothing about what is inside.
EMPTY_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}


#: What a whole family of modules promises alike, said once: a command's two functions (in ``cli/commands.py``).
SAID_ELSEWHERE = {"cli": {"configure", "run"}}
#: Declarations whose fields say all there is; their module says the rest.
DECLARATIONS = ("protocol/messages/", "coordination/schemas/")


def _public(module: Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes and functions at the top of a module that others may use."""
    for node in module.tree.body:
        if (
            isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
            and node.name not in SAID_ELSEWHERE.get(module.room, ())
            and not (isinstance(node, ast.ClassDef) and module.name.startswith(DECLARATIONS))
        ):
            yield node


def test_every_module_class_and_function_says_what_it_promises() -> None:
    silent = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in modules()
        for node in _public(module)
        if not ast.get_docstring(node)
    ]
    none(silent)


def test_every_module_says_what_lives_in_it() -> None:
    none([module.name for module in modules() if module.tree.body and not ast.get_docstring(module.tree)])


def test_files_are_named_by_nouns_that_mean_something() -> None:
    none([str(path.relative_to(ROOT)) for path in python_files() if path.stem in EMPTY_NAMES])


def test_every_folder_of_tests_is_a_package() -> None:
    """Two test files of one name in different folders would otherwise hide each other."""
    folders = {path.parent for path in python_files() if "tests" in path.relative_to(ROOT).parts}
    none([str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").is_file()])


def test_unit_tests_mirror_the_rooms() -> None:
    rooms = {module.room for module in modules()} | {"bench"}
    units = {path.name for path in (ROOT / "tests" / "unit").iterdir() if (path / "__init__.py").is_file()}
    assert units <= rooms
