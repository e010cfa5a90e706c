"""Patterns of topic names: what they match, what is refused, and that none of them takes long."""

import re
from re import _parser as parser  # type: ignore[attr-defined]
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.coordination.groups.consumer.automaton import Automaton
from millstream.coordination.groups.consumer.regex import matching
from millstream.model.errors import ErrorCode, ProtocolError

PATTERNS = [
    "(a+)+b",
    ".*a.*b.*",
    "(?i)a.*b.*.*",
    "(a|b)*c{2,3}",
    "^a.*b$",
    "(^a|b)+.*$",
    "[^a-c]+.*.*",
    "[^a]b[a-b._]*",
    "(?:ab|c)?d*1*f*",
    "a{3}",
    r"\d+\D*\w*",
    "(a*)*",
    "a|b|",
    "(?i:aB)c.*?.*",
    "[A-B-]+?-?",
    "a$b",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=50)
@given(name=st.text("abcABd1-._", max_size=8))
def test_following_all_ways_at_once_finds_what_going_back_finds(pattern: str, name: str) -> None:
    assert Automaton(parser.parse(pattern)).matches(name) == bool(re.fullmatch(pattern, name))


def test_a_pattern_matches_whole_names() -> None:
    names = ["orders", "orders-2", "my-orders", "bills"]
    assert matching("orders.*", names) == {"orders", "orders-2"}
    assert matching("orders", names) == {"orders"}
    assert matching(".*-.*.*", names) == {"orders-2", "my-orders"}
    assert matching("", names) == set()


@pytest.mark.parametrize(
    "pattern", ["(", "*a", "[[:alpha:]]", "(?=a)b", "(?!a)b", "(?<=a)b", "(a)\\1", "(?>a)b", "a++", "(a{99}){99}{9}"]
)
def test_what_re2_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        matching(pattern, ["a"])
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "a*a*a*a*a*a*b", "(.*a){1,30}c", "(a|a|.)" * 99 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """Python's own matcher takes years for each of these."""
    begun_s = perf_counter()
    assert matching(pattern, ["a" * 249]) == set()
    assert perf_counter() - begun_s < 2
