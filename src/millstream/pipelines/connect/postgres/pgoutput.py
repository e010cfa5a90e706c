"""What a logical replication slot says through pgoutput, PostgreSQL's own plugin: its messages, decoded.

Protocol version 1: whole transactions, one after another, in the order of their commits.  Values come as text.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

#: PostgreSQL counts microseconds from the year 2000.
EPOCH_US = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000


class Unchanged(Enum):
    """A large value that an update left as it was; the server does not look it up again."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
#: A row: text, null or left out, for each column of the relation.
Row = tuple[str | Unchanged | None, ...]


class MalformedMessage(ValueError):
    """Not what pgoutput says."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins: where it commits, when, and its number."""

    final_lsn: int
    at_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """It is over; the next may begin at ``end_lsn``."""

    commit_lsn: int
    end_lsn: int
    at_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column, and whether it is part of what identifies a row in updates and deletes."""

    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it was when the changes behind this were made."""

    oid: int
    schema: str
    table: str
    #: d: the primary key, n: nothing, f: the full row, i: an index.
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """A row more."""

    relation_oid: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    """``old`` is None when the identity is unchanged; else its columns have values there, or all if it ``is_full``."""

    relation_oid: int
    old: Row | None
    is_full: bool
    new: Row


@dataclass(frozen=True, slots=True)
class Delete:
    """A row less: its identity's values, or, where it ``is_full``, all."""

    relation_oid: int
    old: Row
    is_full: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """No rows any more, in any of these."""

    relation_oids: tuple[int, ...]


Change = Insert | Update | Delete | Truncate
Message = Begin | Commit | Relation | Change


class _Reader:
    """Fields from the front of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def one(self, form: str) -> int:
        return self.take(form)[0]

    def letter(self) -> str:
        return chr(self.one(">B"))

    def bytes(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise MalformedMessage("ends within a value")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        end = self._data.index(b"\0", self._at)
        return self.bytes(end + 1 - self._at)[:-1].decode()

    def row(self) -> Row:
        return tuple(self._value() for _ in range(self.one(">H")))

    def _value(self) -> str | Unchanged | None:
        kind = self.letter()
        if kind == "t":
            return self.bytes(self.one(">i")).decode()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        raise MalformedMessage(f"a value of the kind {kind!r}")


def decode(data: bytes) -> Message | None:
    """The message; None for one that says nothing about rows (an origin, a type, a message of an application's)."""
    try:
        kind = chr(data[0])
        if kind in PASSED_OVER:
            return None
        decoder = DECODERS.get(kind)
        if decoder is None:
            raise MalformedMessage(f"a message of the kind {kind!r}")
        return decoder(_Reader(data[1:]))
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedMessage(f"not a message of pgoutput's: {error}") from error


def _begin(reader: _Reader) -> Begin:
    final_lsn, at_us, xid = reader.take(">QqI")
    return Begin(final_lsn, at_us + EPOCH_US, xid)


def _commit(reader: _Reader) -> Commit:
    _flags, commit_lsn, end_lsn, at_us = reader.take(">BQQq")
    return Commit(commit_lsn, end_lsn, at_us + EPOCH_US)


def _relation(reader: _Reader) -> Relation:
    oid = reader.one(">I")
    schema, table, identity = reader.text(), reader.text(), reader.letter()
    columns = tuple(_column(reader) for _ in range(reader.one(">H")))
    return Relation(oid, schema or "pg_catalog", table, identity, columns)


def _column(reader: _Reader) -> RelationColumn:
    flags, name = reader.one(">B"), reader.text()
    type_oid, type_modifier = reader.take(">Ii")
    return RelationColumn(name, type_oid, type_modifier, bool(flags & 1))


def _insert(reader: _Reader) -> Insert:
    oid = reader.one(">I")
    _expect(reader.letter(), "N")
    return Insert(oid, reader.row())


def _update(reader: _Reader) -> Update:
    oid, kind = reader.one(">I"), reader.letter()
    old = None
    if (before := kind) in "KO":
        old, kind = reader.row(), reader.letter()
    _expect(kind, "N")
    return Update(oid, old, before == "O", reader.row())


def _delete(reader: _Reader) -> Delete:
    oid, kind = reader.one(">I"), reader.letter()
    _expect(kind, "KO")
    return Delete(oid, reader.row(), kind == "O")


def _truncate(reader: _Reader) -> Truncate:
    count, _options = reader.take(">IB")
    return Truncate(tuple(reader.one(">I") for _ in range(count)))


def _expect(kind: str, wanted: str) -> None:
    if kind not in wanted:
        raise MalformedMessage(f"a row of the kind {kind!r}")


#: Where a transaction came from, a type's name, an application's own words.
PASSED_OVER = "OYM"
DECODERS: dict[str, Callable[[_Reader], Message]] = {
    "B": _begin,
    "C": _commit,
    "R": _relation,
    "I": _insert,
    "U": _update,
    "D": _delete,
    "T": _truncate,
}


def lsn_of(text: str) -> int:
    """A place in the write-ahead log, from ``16/B374D848``."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    """A place in the write-ahead log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
