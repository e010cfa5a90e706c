"""Counting: the same cell for the same labels, and quantiles that are near the truth."""

import math
import random

import pytest

from millstream.metrics.metric import Kind, Metric, Metrics, Summary
from millstream.metrics.table import BYTES_IN, LEADER_COUNT, LOG_SIZE, METRICS, REQUEST_TIME_MS


def test_the_same_labels_count_on_the_same_cell() -> None:
    metrics = Metrics(METRICS)
    cell = metrics.cell(BYTES_IN, "orders")
    cell.value += 5
    metrics.cell(BYTES_IN, "orders").value += 2
    metrics.cell(BYTES_IN, "users").value += 1
    assert dict(metrics.values(BYTES_IN)) == {("orders",): 7, ("users",): 1}


def test_a_reading_is_taken_when_someone_looks() -> None:
    metrics = Metrics(METRICS)
    led = ["a"]
    metrics.read(LEADER_COUNT, lambda: len(led))
    metrics.read(LOG_SIZE, lambda: [(("orders", "0"), 3.0)])
    led.append("b")
    assert list(metrics.values(LEADER_COUNT)) == [((), 2)]
    assert list(metrics.values(LOG_SIZE)) == [(("orders", "0"), 3.0)]


def test_a_wrong_number_of_labels_or_kind_is_our_own_bug() -> None:
    metrics = Metrics(METRICS)
    for misuse in (
        lambda: metrics.cell(BYTES_IN),
        lambda: metrics.cell(REQUEST_TIME_MS, "Produce"),
        lambda: metrics.summary(BYTES_IN, "orders"),
    ):
        with pytest.raises(AssertionError):
            misuse()


@pytest.mark.parametrize("part", [0.5, 0.95, 0.99])
def test_a_quantile_is_near_the_exact_one(part: float) -> None:
    rng = random.Random(7)
    values = sorted(rng.lognormvariate(1, 1.5) for _ in range(5000))
    summary = Summary()
    for value in values:
        summary.observe(value)
    exact = values[math.ceil(part * len(values)) - 1]
    assert exact <= summary.quantile(part) <= exact * 1.2500001
    assert summary.count == 5000
    assert summary.total == pytest.approx(sum(values))


def test_quantiles_forget_after_two_turns_and_counts_never() -> None:
    summary = Summary()
    assert math.isnan(summary.quantile(0.5))
    summary.observe(1e12)
    assert summary.quantile(0.5) == 1e12
    summary.turn()
    assert summary.quantile(0.5) == 1e12
    summary.turn()
    assert math.isnan(summary.quantile(0.5))
    assert summary.count == 1


def test_no_quantile_is_above_the_greatest_value_of_its_time() -> None:
    summary = Summary()
    summary.observe(36_586)
    assert {summary.quantile(part) for part in (0.5, 0.99)} == {36_586}
    summary.turn()
    summary.observe(1.1)
    assert summary.quantile(0.5) == pytest.approx(1.1, rel=0.25)
    assert summary.quantile(0.99) == 36_586
    summary.turn()
    assert summary.quantile(0.99) == 1.1


def test_a_deleted_topics_numbers_can_be_forgotten() -> None:
    metrics = Metrics(METRICS)
    metrics.cell(BYTES_IN, "orders").value = 1
    metrics.cell(BYTES_IN, "orders2").value = 2
    metrics.summary(REQUEST_TIME_MS, "orders").observe(3)
    metrics.forget(topic="orders")
    assert dict(metrics.values(BYTES_IN)) == {("orders2",): 2}
    assert [labels for labels, _ in metrics.summaries(REQUEST_TIME_MS)] == [("orders",)]  # Another kind of name.


def test_a_number_that_nobody_knows_any_more_is_dropped_alone() -> None:
    metrics = Metrics(METRICS)
    metrics.cell(BYTES_IN, "orders").value = 1
    metrics.cell(BYTES_IN, "users").value = 2
    metrics.drop(BYTES_IN, "orders")
    metrics.drop(BYTES_IN, "never")
    assert dict(metrics.values(BYTES_IN)) == {("users",): 2}


def test_names_are_unique_and_counters_say_total() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.name.endswith("_total") == (metric.kind is Kind.COUNTER) for metric in METRICS)
    assert all(metric.doc.endswith(".") for metric in METRICS)


def test_a_turn_reaches_every_summary() -> None:
    metrics = Metrics([metric := Metric("x", Kind.SUMMARY, "X.", ("a",))])
    metrics.summary(metric, "one").observe(1)
    metrics.turn()
    metrics.turn()
    assert math.isnan(metrics.summary(metric, "one").quantile(0.5))
