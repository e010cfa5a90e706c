"""DescribeTransactions and ListTransactions."""

from collections.abc import Iterable
from time import perf_counter
from typing import Any

import pytest

from millstream.coordination.patterns.matcher import matching
from millstream.coordination.transactions import listing
from millstream.coordination.transactions.events import DescribeTransaction
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.describe_transactions import TopicData
from millstream.protocol.messages.list_transactions import ListTransactionsRequest
from tests.unit.coordination.transactions.desk import Desk


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.made("idle")
    desk.add("old", desk.made("old"), "b-1", "a-2", "a-0")
    desk.pass_time(1_000)
    desk.add("new", desk.made("new"), "a-0")
    return desk


def listed(desk: Desk, **filters: Any) -> list[str]:
    answer = desk.ask(ListTransactionsRequest(**filters), 2)
    return sorted(row.transactional_id for row in answer.transaction_states)


def test_a_transaction_is_described_with_its_partitions_by_topic(desk: Desk) -> None:
    row = desk.ask(DescribeTransaction("old"))
    assert (row.error_code, row.transactional_id, row.transaction_state) == (0, "old", "Ongoing")
    assert (row.producer_id, row.producer_epoch) == (1001, 0)
    assert (row.transaction_timeout_ms, row.transaction_start_time_ms) == (60_000, 1_000)
    assert row.topics == [TopicData(topic="a", partitions=[0, 2]), TopicData(topic="b", partitions=[1])]


def test_an_id_nobody_used_is_not_found(desk: Desk) -> None:
    assert desk.ask(DescribeTransaction("unknown")) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.ask(DescribeTransaction("")) is ErrorCode.INVALID_REQUEST


def test_all_are_listed(desk: Desk) -> None:
    assert listed(desk) == ["idle", "new", "old"]


def test_filters_are_by_state_producer_age_and_name(desk: Desk) -> None:
    assert listed(desk, state_filters=["Ongoing"]) == ["new", "old"]
    assert listed(desk, state_filters=["Empty", "Ongoing"], producer_id_filters=[1000, 1002]) == ["idle", "new"]
    assert listed(desk, state_filters=["Ongoing"], duration_filter=999) == ["old"]
    assert listed(desk, state_filters=["Ongoing"], duration_filter=1_000) == []
    assert listed(desk, transactional_id_pattern="o.*|n.w") == ["new", "old"]
    assert listed(desk, transactional_id_pattern="o") == [], "the whole name is to match"


def test_states_nobody_knows_are_named(desk: Desk) -> None:
    answer = desk.ask(ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"]), 2)
    assert answer.unknown_state_filters == ["Sleeping"]
    assert len(answer.transaction_states) == 2


def test_a_pattern_that_is_none_is_refused(desk: Desk) -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    assert desk.ask(request, 2) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_no_pattern_holds_up_the_others(desk: Desk) -> None:
    """Python's own matcher takes a minute for this one."""
    desk.made("a" * 28 + "!")
    desk.made("заказы-1")
    begun_s = perf_counter()
    assert listed(desk, transactional_id_pattern="(a+)+") == []
    assert listed(desk, transactional_id_pattern="(([а-я]+)+)+-1") == ["заказы-1"]
    assert perf_counter() - begun_s < 1


def test_a_pattern_is_matched_with_those_alone_that_pass_the_other_filters(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for the few that are open, as writers do with every batch, does not pay for the many that were."""
    matched: list[str] = []

    def noted(regex: str, names: Iterable[str]) -> frozenset[str]:
        matched.extend(names)
        return matching(regex, names)

    monkeypatch.setattr(listing, "matching", noted)
    assert listed(desk, state_filters=["Ongoing"], transactional_id_pattern="o.*") == ["old"]
    assert sorted(matched) == ["new", "old"]
