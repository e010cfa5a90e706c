"""Messages of logical replication, byte by byte."""

import struct

import pytest

from millstream.pipelines.connect.postgres.pgoutput import (
    EPOCH_US,
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    MalformedMessage,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decode,
    lsn_of,
    lsn_text,
)


def text(value: str) -> bytes:
    return b"t" + struct.pack(">i", len(value.encode())) + value.encode()


def row(*values: bytes) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(values)


ROW = row(text("7"), b"n", b"u", text("größe"))
READ = ("7", None, UNCHANGED, "größe")
OID = struct.pack(">I", 16384)


def test_a_transaction_has_a_begin_and_a_commit() -> None:
    assert decode(b"B" + struct.pack(">QqI", 5, 1_000, 77)) == Begin(5, EPOCH_US + 1_000, 77)
    assert decode(b"C" + struct.pack(">BQQq", 0, 5, 9, 2_000)) == Commit(5, 9, EPOCH_US + 2_000)


def test_a_relation_names_its_columns() -> None:
    columns = b"\1id\0" + struct.pack(">Ii", 23, -1) + b"\0price\0" + struct.pack(">Ii", 1700, 524294)
    assert decode(b"R" + OID + b"public\0orders\0d" + struct.pack(">H", 2) + columns) == Relation(
        16384,
        "public",
        "orders",
        "d",
        (RelationColumn("id", 23, -1, True), RelationColumn("price", 1700, 524294, False)),
    )


def test_rows_are_text_null_or_left_out() -> None:
    assert decode(b"I" + OID + b"N" + ROW) == Insert(16384, READ)


def test_an_update_may_have_the_key_or_the_row_before() -> None:
    assert decode(b"U" + OID + b"N" + ROW) == Update(16384, None, False, READ)
    assert decode(b"U" + OID + b"K" + ROW + b"N" + ROW) == Update(16384, READ, False, READ)
    assert decode(b"U" + OID + b"O" + ROW + b"N" + ROW) == Update(16384, READ, True, READ)


def test_a_delete_has_the_key_or_the_row() -> None:
    assert decode(b"D" + OID + b"K" + ROW) == Delete(16384, READ, False)
    assert decode(b"D" + OID + b"O" + ROW) == Delete(16384, READ, True)


def test_a_truncate_names_its_tables() -> None:
    assert decode(b"T" + struct.pack(">IBII", 2, 1, 5, 6)) == Truncate((5, 6))


@pytest.mark.parametrize("message", [b"O" + bytes(8) + b"origin\0", b"Y" + OID + b"public\0mood\0", b"M\0" + bytes(8)])
def test_what_says_nothing_about_rows_is_passed_over(message: bytes) -> None:
    assert decode(message) is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"?",
        b"B\0",
        b"R" + OID + b"public",
        b"I" + OID + b"X" + ROW,
        b"I" + OID + b"N" + row(b"?"),
        b"I" + OID + b"N" + ROW[:-1],
        b"I" + OID + b"N" + row(b"t" + struct.pack(">i", -1)),
        b"D" + OID + b"N" + ROW,
    ],
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(message)


@pytest.mark.parametrize(("written", "lsn"), [("0/0", 0), ("16/B374D848", 0x16B374D848), ("FF/FFFFFFFF", 2**40 - 1)])
def test_places_are_read_and_written_as_postgresql_does(written: str, lsn: int) -> None:
    assert lsn_of(written) == lsn
    assert lsn_text(lsn) == written
