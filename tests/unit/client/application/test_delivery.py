"""The one choice of how often a record may arrive."""

import pytest

from millstream.client.application.delivery import CONSUMER_PROMISES, PRODUCER_PROMISES, Delivery
from millstream.client.application.errors import BadSetting


@pytest.mark.parametrize("spelling", ["exactly_once", "EXACTLY_ONCE", "exactly-once", Delivery.EXACTLY_ONCE])
def test_a_choice_is_known_by_its_name_in_any_spelling(spelling: str | Delivery) -> None:
    assert Delivery.of(spelling) is Delivery.EXACTLY_ONCE


def test_a_choice_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadSetting, match=r"'twice' is not one of 'at_most_once', 'at_least_once', 'exactly_once'"):
        Delivery.of("twice")


def test_every_choice_says_what_it_promises_on_both_sides() -> None:
    assert set(PRODUCER_PROMISES) == set(CONSUMER_PROMISES) == set(Delivery)
