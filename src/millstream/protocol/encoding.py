"""Writes the Python source of encoders; the mirror image of ``decoding``.

The pieces of a message are gathered in a list and joined once.  Where a message holds records, what the source
makes is a list of parts instead, so that records (bytes, or a slice of a file) are passed on uncopied.
"""

from struct import pack
from typing import Any

from millstream.protocol import wire
from millstream.protocol.decoding import holds_records
from millstream.protocol.schema import Field, Struct
from millstream.protocol.source import SourceWriter
from millstream.protocol.types import Array, FieldType, FixedType, Records, SizedType, String, VarintType


class EncoderSource(SourceWriter):
    """The source of ``encode(m)`` for one class and version: bytes, or parts where there are records."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self._run: list[tuple[str, str]] = []  # struct code and expression of what is yet to be written
        self._add = "add"
        self.makes_parts = holds_records(cls)
        self.constants |= {name: getattr(wire, name) for name in ("encode_uvarint", "encode_varint", "SMALL_UVARINTS")}
        self.constants["pack"] = pack

    def write(self) -> str:
        with self.block("def encode(m):"):
            self.line("out = []")
            self.line("add = out.append")
            if self.makes_parts:
                self.line("parts = []")
            self._struct(self.cls, "m")
            self._end_run()
            if self.makes_parts:
                self.line("if out: parts.append(b''.join(out))")
                self.line("return parts")
            else:
                self.line("return b''.join(out)")
        return self.text()

    # -- runs of fixed size ------------------------------------------------------------------------------------------

    def _write(self, code: str, expression: str) -> None:
        self._run.append((code, expression))

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if run:
            self.line(f"{self._add}({self._packed(run)})")

    def _end_run_with_uvarint(self, value: str) -> None:
        """Write what is pending and a varint, in one piece when it is small, as it mostly is."""
        run, self._run = self._run, []
        if not run:
            self.line(f"{self._add}(SMALL_UVARINTS[{value}] if {value} < 128 else encode_uvarint({value}))")
            return
        with self.block(f"if {value} < 128:"):
            self.line(f"{self._add}({self._packed([*run, ('B', value)])})")
        with self.block("else:"):
            self.line(f"{self._add}({self._packed(run)} + encode_uvarint({value}))")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        if all(code == "x" for code, _ in run):
            return repr(bytes(len(run)))
        name = self.packer("pack", "".join(code for code, _ in run))
        return f"{name}({', '.join(value for _, value in run if value)})"

    # -- structs and their fields ------------------------------------------------------------------------------------

    def _struct(self, cls: type[Struct], source: str) -> None:
        tagged = []
        for each in cls.FIELDS:
            if each.is_tagged(self.version):
                tagged.append(each)
            elif each.is_present(self.version):
                self._value(each.type, f"{source}.{each.name}", each.is_nullable(self.version))
        if self.flexible:
            self._tags(tagged, source)

    def _value(self, of: FieldType, source: str, nullable: bool) -> None:
        match of:
            case FixedType(code=code):
                self._write(code, source)
            case VarintType(signed=signed):
                self._end_run()
                self.line(f"{self._add}({'encode_varint' if signed else 'encode_uvarint'}({source}))")
            case SizedType():
                self._sized(of, source, nullable)
            case Array():
                self._array(of.of, source, nullable)
            case _:
                self._nested(of, source, b"\xff" if nullable else None)

    def _nested(self, cls: type[Any], source: str, null: bytes | None) -> None:
        """Write a struct; where it may be null, behind a byte that says whether it is."""
        value = self.fresh("o")
        self.line(f"{value} = {source}")
        if null is None:
            self._struct(cls, value)
            return
        self._end_run()
        with self.block(f"if {value} is None:"):
            self.line(f"{self._add}({null!r})")
        with self.block("else:"):
            self._write("b", "1")
            self._struct(cls, value)
            self._end_run()

    def _length(self, code: str, length: str) -> None:
        """Write a length held in a variable, where -1 stands for null."""
        if self.flexible:
            self.line(f"{length} += 1")
            self._end_run_with_uvarint(length)
        else:
            self._write(code, length)
            self._end_run()

    def _sized(self, of: SizedType, source: str, nullable: bool) -> None:
        value, length = self.fresh("v"), self.fresh("n")
        taken = f"{source}.encode()" if of is String else source
        if nullable:
            with self.block(f"if {source} is None:"):
                self.line(f"{value} = b''")
                self.line(f"{length} = -1")
            self.line("else:")
        with self.block(None if not nullable else ""):
            self.line(f"{value} = {taken}")
            self.line(f"{length} = len({value})")
            if of is String and self.flexible:
                self.line(f"assert {length} <= {wire.STRING_BYTES_MAX}")
        self._length(of.length_code, length)
        if of is not Records:
            self.line(f"{self._add}({value})")
            return
        assert self._add == "add", "records cannot be tagged"
        with self.block(f"if {length} > {int(self.flexible)}:"):
            self.line("parts.append(b''.join(out))")
            self.line(f"parts.append({value})")
            self.line("out.clear()")

    def _array(self, of: FieldType, source: str, nullable: bool) -> None:
        items, length = self.fresh("items"), self.fresh("n")
        self.line(f"{items} = {source}")
        if nullable:
            self.line(f"{length} = -1 if {items} is None else len({items})")
        else:
            self.line(f"{length} = len({items})")
        self._length("i", length)
        if isinstance(of, FixedType):
            unit = of.code if of.size <= 8 else ""
            with self.block(f"if {items}:"):
                packed = f"pack(f'>{{len({items})}}{unit}', *{items})" if unit else f"b''.join({items})"
                self.line(f"{self._add}({packed})")
            return
        item = self.fresh("o")
        with self.block(f"for {item} in {items}{' or ()' if nullable else ''}:"):
            if isinstance(of, type):
                self._struct(of, item)
            else:
                self._value(of, item, nullable=False)
            self._end_run()

    def _tags(self, tagged: list[Field], source: str) -> None:
        """Write the tagged fields that differ from their defaults; almost always there are none."""
        if not tagged:
            self._write("x", "")
            return
        pending = self._run
        with self.block(f"if {' and '.join(self._is_default(each, source) for each in tagged)}:"):
            self._write("x", "")
            self._end_run()
        with self.block("else:"):
            self._run = pending[:-1]
            self._end_run()
            fields = self.fresh("fields")
            self.line(f"{fields} = []")
            for each in sorted(tagged, key=lambda each: each.tag or 0):
                with self.block(f"if not ({self._is_default(each, source)}):"):
                    self._tagged(each, f"{source}.{each.name}", fields)
            self.line(f"{self._add}(encode_uvarint(len({fields})) + b''.join({fields}))")

    def _tagged(self, each: Field, source: str, fields: str) -> None:
        outer, pieces = self._add, self.fresh("pieces")
        self.line(f"{pieces} = []")
        self._add = f"{pieces}.append"
        if isinstance(each.type, type) and each.is_nullable(self.version):
            self._nested(each.type, source, b"\0")
        else:
            self._value(each.type, source, each.is_nullable(self.version))
        self._end_run()
        self._add = outer
        body = self.fresh("v")
        self.line(f"{body} = b''.join({pieces})")
        self.line(f"{fields}.append(encode_uvarint({each.tag}) + encode_uvarint(len({body})) + {body})")

    def _is_default(self, each: Field, source: str) -> str:
        if isinstance(each.type, type) and each.is_nullable(self.version):
            return "False"
        default = self.default(each)
        if default == "[]":
            return f"not {source}.{each.name}"
        operator = "is" if default in ("None", "True", "False") else "=="
        return f"{source}.{each.name} {operator} {default}"
