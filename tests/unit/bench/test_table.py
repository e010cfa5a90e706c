"""The benchmark's tables: ratios, verdicts, and their place in a document."""

import pytest
from bench import scale
from bench.__main__ import TABLES
from bench.servers import PROJECT
from bench.table import CEILING, KAFKA, LESS, MILLIONS, MILLIS, MILLSTREAM, MORE, Row, render, replace_section

FAST = Row("fast", "produce", "raw client", MILLIONS, MORE, of_ceiling=0.85)
SOON = Row("soon", "latency, p99", "raw client", MILLIS, LESS, of_ceiling=1.5, of_kafka=0.3)
NOTED = Row("noted", "of that, until the first is", "none", MILLIS, LESS, of_kafka=None)
SMALL = Row("small", "memory", "none", (1e-6, "{:.0f} MB"), LESS, limit=60e6)


@pytest.mark.parametrize(
    ("row", "figures", "verdict"),
    [
        (FAST, {CEILING: 2e6, MILLSTREAM: 1.8e6, KAFKA: 1.5e6}, "met"),
        (FAST, {CEILING: 2e6, MILLSTREAM: 1.6e6, KAFKA: 1.5e6}, "**missed**"),
        (FAST, {CEILING: 2e6, MILLSTREAM: 1.8e6, KAFKA: 1.9e6}, "**missed**"),
        (FAST, {CEILING: 2e6, MILLSTREAM: 1.8e6}, "met"),
        (FAST, {CEILING: 2e6, KAFKA: 1.5e6}, ""),
        (SOON, {CEILING: 200, MILLSTREAM: 290, KAFKA: 2_000}, "met"),
        (SOON, {CEILING: 200, MILLSTREAM: 290, KAFKA: 900}, "**missed**"),
        (SMALL, {MILLSTREAM: 59e6, KAFKA: 400e6}, "met"),
        (SMALL, {MILLSTREAM: 61e6, KAFKA: 400e6}, "**missed**"),
        (NOTED, {MILLSTREAM: 1.0, KAFKA: 2.0}, ""),
    ],
)
def test_a_row_is_met_only_when_every_target_of_it_is(row: Row, figures: dict[str, float], verdict: str) -> None:
    assert row.verdict(figures) == verdict


def test_a_figure_is_the_median_of_its_rounds() -> None:
    table = render([FAST], {"fast": {CEILING: [2e6, 4e6, 2.2e6], MILLSTREAM: [2e6, 2.1e6, 0.1e6]}})
    assert "2.20 M/s | 2.00 M/s | — | 0.91× | —" in table


def test_rows_that_were_not_measured_are_left_out() -> None:
    assert render([FAST, SOON], {"fast": {CEILING: [1.0]}, "soon": {}}).count("\n") == 2


def test_a_table_in_which_the_ceiling_has_no_part_has_no_columns_for_it() -> None:
    table = render([FAST], {"fast": {MILLSTREAM: [2e6], KAFKA: [1e6]}})
    assert "| line | load | millstream | Apache Kafka | of Kafka | target |  |" in table
    assert "| 2.00 M/s | 1.00 M/s | 2.00× |" in table


def test_a_section_is_replaced_and_the_rest_of_the_document_stays() -> None:
    document = "before\n<!-- table: begin -->\nold\n<!-- table: end -->\nafter\n"
    assert replace_section(document, "table", "new") == document.replace("old", "new")
    with pytest.raises(ValueError, match="no section"):
        replace_section(document, "other", "new")


def test_a_figure_that_is_held_to_nothing_is_shown_without_a_verdict() -> None:
    table = render([NOTED], {"noted": {MILLSTREAM: [1_000.0], KAFKA: [2_000.0]}})
    assert table.endswith("| 1.00 ms | 2.00 ms | 0.50× |  |  |")


@pytest.mark.parametrize("section", [*TABLES, *scale.BENCHES])
def test_every_table_and_scale_bench_has_its_place_in_the_document(section: str) -> None:
    replace_section((PROJECT / "docs" / "benchmarks.md").read_text(), section, "new")


def test_every_row_has_a_key_of_its_own() -> None:
    keys = [row.key for each in TABLES.values() for row in each.rows]
    assert len(set(keys)) == len(keys)
