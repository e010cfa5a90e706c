"""Statements as they are put together."""

from millstream.pipelines.connect.postgres import sql


def test_names_cannot_break_out_of_a_statement() -> None:
    assert sql.quoted('a"; DROP TABLE b; --') == '"a""; DROP TABLE b; --"'
    assert sql.quoted("100%s") == '"100%%s"'


def test_a_place_of_several_columns_is_compared_as_a_row() -> None:
    assert sql.behind(['"id"'], ["int8"]) == '"id" > %s::int8'
    assert sql.up_to(['"at"', '"id"'], ["timestamp", "int8"]) == '("at", "id") <= (%s::timestamp, %s::int8)'


def test_the_last_of_the_next_rows_is_asked_for_in_their_order() -> None:
    assert sql.last_of('"t"', ['"at"', '"id"'], ["x", "y"], counted=True) == (
        "SELECT c0::text, c1::text, count(*) OVER () FROM "
        '(SELECT "at" AS c0, "id" AS c1 FROM "t" WHERE x AND y ORDER BY c0, c1 LIMIT %s) AS next '
        "ORDER BY c0 DESC, c1 DESC LIMIT 1"
    )


def test_rows_are_inserted_put_in_place_changed_and_deleted() -> None:
    assert sql.insert('"t"', ["a", "b"]) == 'INSERT INTO "t" ("a", "b") VALUES (%s, %s)'
    assert sql.insert('"t"', []) == 'INSERT INTO "t" DEFAULT VALUES'
    assert sql.upsert('"t"', ["a", "b"], ["a"]) == (
        'INSERT INTO "t" ("a", "b") VALUES (%s, %s) ON CONFLICT ("a") DO UPDATE SET "b" = EXCLUDED."b"'
    )
    assert sql.upsert('"t"', ["a"], ["a"]).endswith('ON CONFLICT ("a") DO NOTHING')
    assert sql.update('"t"', ["b"], ["a", "c"]) == 'UPDATE "t" SET "b" = %s WHERE "a" = %s AND "c" = %s'
    assert sql.delete('"t"', ["a"]) == 'DELETE FROM "t" WHERE "a" = %s'


def test_tables_are_made_and_widened() -> None:
    columns = [("a", "INT", False), ("b", "TEXT", True)]
    assert sql.create('"t"', columns, ["a"]) == (
        'CREATE TABLE IF NOT EXISTS "t" ("a" INT NOT NULL, "b" TEXT, PRIMARY KEY ("a"))'
    )
    assert sql.widen('"t"', [("c", "INT"), ("d", "TEXT")]) == (
        'ALTER TABLE "t" ADD COLUMN IF NOT EXISTS "c" INT, ADD COLUMN IF NOT EXISTS "d" TEXT'
    )
