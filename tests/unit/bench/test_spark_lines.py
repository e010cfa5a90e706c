from bench.spark_lines import MILLIS, ROWS_PER_S, Line, render
from bench.table import LESS


def test_a_line_is_held_to_its_ratio_in_the_direction_that_is_better() -> None:
    assert Line("sink", 7.0, 10.0, ROWS_PER_S, held_to=0.7).is_met
    assert not Line("sink", 6.9, 10.0, ROWS_PER_S, held_to=0.7).is_met
    assert Line("p50", 99.0, 100.0, MILLIS, LESS, held_to=1.0).is_met
    assert not Line("p50", 101.0, 100.0, MILLIS, LESS, held_to=1.0).is_met
    assert Line("by CPU time", 1.0, 100.0, ROWS_PER_S).is_met


def test_the_table_shows_figures_ratio_target_and_verdict() -> None:
    lines = [
        Line("sink", 1.5e6, 1e6, ROWS_PER_S, held_to=0.7),
        Line("p99", 25_040.0, 20_000.0, MILLIS, LESS, held_to=1.0),
    ]
    assert render(lines).splitlines()[2:] == [
        "| sink | 1.50 M rows/s | 1.00 M rows/s | 1.50× | ≥ 0.7× | met |",
        "| p99 | 25.0 ms | 20.0 ms | 1.25× | ≤ 1× | **missed** |",
    ]
