"""What decoders' and encoders' source have in common: lines, blocks, names and constants."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any

from millstream.protocol.schema import Field, Struct
from millstream.protocol.types import Array


class SourceWriter:
    """Lines of Python being written, and the constants they will be executed with."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.constants: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def write(self) -> str:
        """The whole source of the function."""
        raise NotImplementedError

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """Indent what is written inside; an empty head continues a line already written, None indents nothing."""
        if head:
            self.line(head)
        self._depth += head is not None
        yield
        self._depth -= head is not None

    def fresh(self, prefix: str) -> str:
        """A name used nowhere else in this source."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, name: str, value: Any) -> str:
        """The name under which the source finds ``value``."""
        self.constants[name] = value
        return name

    def packer(self, method: str, codes: str) -> str:
        """The name of a method of the ``struct.Struct`` for these codes."""
        name = f"{method}_{codes.replace('?', 'o')}"
        return self.constant(name, getattr(Packer(f">{codes}"), method))

    def default(self, each: Field) -> str:
        """An expression for the default of a field."""
        value = each.make_default()
        if isinstance(value, Struct):
            return f"{self.constant(type(value).__name__, type(value))}()"
        if isinstance(each.type, Array) and value == []:
            return "[]"
        return repr(value)
