"""Rows and changes, kept apart."""

from millstream.pipelines.connect.postgres.catalog import Column, Table
from millstream.pipelines.connect.postgres.pgoutput import UNCHANGED, Delete, Insert, Relation, RelationColumn, Update
from millstream.pipelines.connect.postgres.types import TEXT
from millstream.pipelines.connect.sources.postgres.snapshot import Touched, Visible

COLUMNS = (Column("item", TEXT), Column("id", TEXT))
KEYED = Table(1, "public", "t", COLUMNS, ("id",))
KEYLESS = Table(1, "public", "t", COLUMNS, ())
RELATION = Relation(1, "public", "t", "d", (RelationColumn("item", 25, -1, False), RelationColumn("id", 25, -1, True)))


def test_a_snapshot_shows_what_was_over_when_it_was_taken() -> None:
    visible = Visible.parse("10:20:12,15")
    assert [xid for xid in range(8, 23) if not visible.has(xid)] == [12, 15, 20, 21, 22]
    assert Visible.parse("10:10:").has(9) and not Visible.parse("10:10:").has(10)


def test_numbers_of_transactions_that_were_used_up_begin_anew() -> None:
    visible = Visible.parse(f"{2**32 - 5}:{2**32 + 5}:{2**32 - 2}")
    assert visible.has(2**32 - 3) and visible.has(4)
    assert not visible.has(2**32 - 2) and not visible.has(5)


def test_rows_that_changed_are_known_by_their_keys_old_and_new() -> None:
    touched = Touched(KEYED)
    touched.add(Insert(1, ("new", "1")), RELATION)
    touched.add(Update(1, (None, "2"), False, ("moved", "3")), RELATION)
    touched.add(Update(1, (None, "4"), False, ("large", UNCHANGED)), RELATION)
    touched.add(Delete(1, (None, "5"), False), RELATION)
    assert [key for key in "1234567" if touched.takes(("anything", key))] == list("12345")


def test_a_row_that_has_what_its_changes_have_not_comes_as_well() -> None:
    """An update does not say what a large value is that it left alone: only the row does."""
    touched = Touched(KEYED)
    touched.add(Update(1, None, False, (UNCHANGED, "1")), RELATION)
    touched.add(Update(1, (None, "9"), False, (UNCHANGED, "2")), RELATION)
    touched.add(Update(1, ("full", "3"), True, (UNCHANGED, "3")), RELATION)
    touched.add(Insert(1, ("large", "4")), RELATION)
    touched.add(Update(1, None, False, (UNCHANGED, "4")), RELATION)
    assert [key for key in "1234" if touched.takes(("large", key))] == list("34")


def test_rows_without_a_key_are_known_by_what_they_are_and_how_many() -> None:
    touched = Touched(KEYLESS)
    touched.add(Insert(1, ("a", "1")), RELATION)
    touched.add(Insert(1, ("a", "1")), RELATION)
    touched.add(Update(1, ("a", "1"), True, ("b", "1")), RELATION)
    touched.add(Insert(1, ("c", None)), RELATION)
    touched.add(Delete(1, ("c", None), True), RELATION)
    rows = [("a", "1"), ("a", "1"), ("b", "1"), ("c", None)]
    assert [row for row in rows if not touched.takes(row)] == [("a", "1"), ("c", None)]
