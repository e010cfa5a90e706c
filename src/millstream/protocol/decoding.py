"""Writes the Python source of decoders: what a patient programmer would write by hand for one class and version.

Fields of fixed size, and the length that follows them, are read with one ``struct`` call; nested structs are
inlined as loops.  What the buffer's end cuts off raises struct.error or IndexError, which ``codec`` turns into
CorruptFrame; lengths are compared with what is left before anything is made of them.
"""

from struct import unpack_from
from typing import Any

from millstream.model.errors import CorruptFrame
from millstream.protocol import wire
from millstream.protocol.schema import Field, Struct
from millstream.protocol.source import SourceWriter
from millstream.protocol.types import Array, Bytes, FieldType, FixedType, Records, SizedType, String, VarintType


def smallest(of: FieldType, version: int, flexible: bool) -> int:
    """The fewest bytes a value of this type takes, so that a count can be refused before it is believed."""
    match of:
        case FixedType(size=size):
            return size
        case SizedType(length_size=size):
            return 1 if flexible else size
        case VarintType():
            return 1
        case Array():
            return 1 if flexible else 4
    total = 1 if flexible else 0
    for each in of.FIELDS:  # type: ignore[attr-defined]
        if each.is_present(version) and not each.is_tagged(version):
            is_marked = isinstance(each.type, type) and each.is_nullable(version)
            total += 1 if is_marked else smallest(each.type, version, flexible)
    return total


def holds_records(of: FieldType) -> bool:
    """Whether a field of type Records lies anywhere inside."""
    if isinstance(of, Array):
        return holds_records(of.of)
    if isinstance(of, type):
        return any(holds_records(each.type) for each in of.FIELDS)  # type: ignore[attr-defined]
    return of is Records


class DecoderSource(SourceWriter):
    """The source of ``decode(b, at) -> message`` for one class and version."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        super().__init__(cls, version, flexible)
        self._run: list[tuple[str, int, str]] = []  # struct code, size and target of what is yet to be read
        self.constants |= {"CorruptFrame": CorruptFrame, "new": object.__new__, "unpack_from": unpack_from}
        self.constants |= {name: getattr(wire, name) for name in ("decode_uvarint", "finish_uvarint", "skip_tags")}
        self.constants["decode_varint"] = wire.decode_varint

    def write(self) -> str:
        with self.block("def decode(b, at):"):
            self.line("end = len(b)")
            if holds_records(self.cls):
                self.line("view = b if type(b) is memoryview else memoryview(b)")
            self._struct(self.cls, "m")
            self.line("return m")
        return self.text()

    # -- runs of fixed size ------------------------------------------------------------------------------------------

    def _read(self, code: str, size: int, target: str) -> None:
        self._run.append((code, size, target))

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        if [code for code, _, _ in run] == ["B"]:
            self.line(f"{run[0][2]} = b[at]")
            self.line("at += 1")
            return
        unpack = self.packer("unpack_from", "".join(code for code, _, _ in run))
        targets = ", ".join(target for _, _, target in run)
        self.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(b, at)")
        self.line(f"at += {sum(size for _, size, _ in run)}")

    # -- structs and their fields ------------------------------------------------------------------------------------

    def _struct(self, cls: type[Struct], target: str) -> None:
        self.line(f"{target} = new({self.constant(cls.__name__, cls)})")
        tagged = []
        for each in cls.FIELDS:
            place = f"{target}.{each.name}"
            if each.is_present(self.version) and not each.is_tagged(self.version):
                self._field(each, place)
                continue
            self.line(f"{place} = {self.default(each)}")
            if each.is_present(self.version):
                tagged.append(each)
        if self.flexible:
            self._tags(tagged, target)
        self._end_run()

    def _field(self, each: Field, place: str) -> None:
        self._value(each.type, place, each.name, each.is_nullable(self.version))

    def _value(self, of: FieldType, place: str, name: str, nullable: bool) -> None:
        match of:
            case FixedType(code=code, size=size):
                self._read(code, size, place)
            case VarintType(bits=bits, signed=signed):
                self._end_run()
                self.line(f"{place}, at = {'decode_varint' if signed else 'decode_uvarint'}(b, at, {bits})")
            case SizedType():
                self._sized(of, place, name, nullable)
            case Array():
                self._array(of.of, place, name, nullable)
            case _:
                self._nested(of, place, "< 0" if nullable else None)

    def _nested(self, cls: type[Any], place: str, null: str | None) -> None:
        """Read a struct; where it may be null, behind a byte that compares like ``null`` when it is."""
        target = self.fresh("o")
        if null is None:
            self._struct(cls, target)
            self.line(f"{place} = {target}")
            return
        marker = self.fresh("n")
        self._read("b", 1, marker)
        self._end_run()
        with self.block(f"if {marker} {null}:"):
            self.line(f"{place} = None")
        with self.block("else:"):
            self._struct(cls, target)
            self.line(f"{place} = {target}")

    def _length(self, code: str, size: int) -> str:
        """Read a length into a variable: -1 for null, in either encoding."""
        length = self.fresh("n")
        if not self.flexible:
            self._read(code, size, length)
            self._end_run()
            return length
        self._read("B", 1, length)
        self._end_run()
        with self.block(f"if {length} > 127:"):
            self.line(f"{length}, at = finish_uvarint(b, at, {length})")
        self.line(f"{length} -= 1")
        return length

    def _sized(self, of: SizedType, place: str, name: str, nullable: bool) -> None:
        length = self._length(of.length_code, of.length_size)
        stop = self.fresh("s")
        taken = {
            String: f"str(b[at:{stop}], 'utf-8')",
            Bytes: f"bytes(b[at:{stop}])",
            Records: f"view[at:{stop}]",
        }[of]
        bound = f"not at <= {stop} <= end"
        if of is String and self.flexible:
            bound += f" or {length} > {wire.STRING_BYTES_MAX}"
        if nullable:
            self.line(f"if {length} < 0:")
            self.line(f"    {place} = None")
            self.line("else:")
        with self.block(None if not nullable else ""):
            self.line(f"{stop} = at + {length}")
            with self.block(f"if {bound}:"):
                self.line(f"raise CorruptFrame(f'{name}: {{{length}}} bytes are claimed, {{end - at}} are left')")
            self.line(f"{place} = {taken}")
            self.line(f"at = {stop}")

    def _array(self, of: FieldType, place: str, name: str, nullable: bool) -> None:
        length = self._length("i", 4)
        if nullable:
            self.line(f"if {length} < 0:")
            self.line(f"    {place} = None")
            self.line("else:")
        size = max(1, smallest(of, self.version, self.flexible))
        claimed = length if size == 1 else f"{length} * {size}"
        with self.block(None if not nullable else ""):
            with self.block(f"if not 0 <= {claimed} <= end - at:"):
                self.line(
                    f"raise CorruptFrame(f'{name}: {{{length}}} elements are claimed, {{end - at}} bytes are left')"
                )
            if isinstance(of, FixedType) and of.size <= 8:
                self.line(f"{place} = list(unpack_from(f'>{{{length}}}{of.code}', b, at))")
                self.line(f"at += {claimed}")
                return
            items, item = self.fresh("items"), self.fresh("o")
            self.line(f"{items} = {place} = []")
            with self.block(f"for _ in range({length}):"):
                if isinstance(of, type):
                    self._struct(of, item)
                else:
                    self._value(of, item, name, nullable=False)
                    self._end_run()
                self.line(f"{items}.append({item})")

    def _tags(self, tagged: list[Field], target: str) -> None:
        """Read the tagged fields at the end of a struct: ours by tag, the others skipped."""
        count = self.fresh("t")
        self._read("B", 1, count)
        self._end_run()
        if not tagged:
            with self.block(f"if {count}:"):
                self.line(f"at = skip_tags(b, at, {count})")
            return
        tag, size, stop = self.fresh("tag"), self.fresh("size"), self.fresh("s")
        with self.block(f"if {count}:"):
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, at = finish_uvarint(b, at, {count})")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, at = decode_uvarint(b, at)")
                self.line(f"{size}, at = decode_uvarint(b, at)")
                self.line(f"{stop} = at + {size}")
                with self.block(f"if {stop} > end:"):
                    self.line(f"raise CorruptFrame(f'tagged field {{{tag}}} runs past the end')")
                for index, each in enumerate(tagged):
                    with self.block(f"{'if' if index == 0 else 'elif'} {tag} == {each.tag}:"):
                        if isinstance(each.type, type) and each.is_nullable(self.version):
                            self._nested(each.type, f"{target}.{each.name}", "<= 0")
                        else:
                            self._field(each, f"{target}.{each.name}")
                        self._end_run()
                with self.block("else:"):
                    self.line(f"at = {stop}")
                with self.block(f"if at != {stop}:"):
                    self.line(f"raise CorruptFrame(f'tagged field {{{tag}}} is not the size it claims')")
