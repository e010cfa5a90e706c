"""Patterns of names: what they match, what is refused, and that none of them takes long."""

import re
from re import _parser as parser  # type: ignore[attr-defined]
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.coordination.patterns.automaton import Automaton
from millstream.coordination.patterns.matcher import matching
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
    ("pattern", "matched"),
    [
        (r"^r\.[[:alpha:]]+$", {"r.ab"}),
        ("[[:^digit:]]", {"a", "b", "_"}),
        ("[a[:digit:]]", {"a", "1"}),
        ("[^[:word:]]|[[:punct:]]", {"_"}),
        ("[^[:space:]]", {"a", "b", "_", "1"}),
        ("[:a:]", {"a"}),
        ("[a[b]", {"a", "b"}),
        ("[]a]", {"a"}),
        ("[^]a]", {"b", "_", "1"}),
        ("[a&&b]", {"a", "b"}),
        (r"[\d\]]", {"1"}),
        (r"\Qa.b\E+", {"a.b"}),
        (r"\Qa.b", {"a.b"}),
        (r"\\Q.", set()),
        (r"a\z", {"a"}),
        (r"\C", {"a", "b", "_", "1"}),
        (r"\pL+", {"a", "b", "ab"}),
        (r"[\p{Nd}_]", {"1", "_"}),
        (r"\P{^Latin}", {"a", "b"}),
        (r"\PL", {"1", "_"}),
        (r"\p{Any}", {"a", "b", "_", "1"}),
        (r"\x{61}", {"a"}),
        ("(?<name>a)b", {"ab"}),
        ("(?P<name>a)b", {"ab"}),
    ],
)
def test_what_re2_spells_in_its_own_way_is_understood(pattern: str, matched: set[str]) -> None:
    assert matching(pattern, ["a", "b", "ab", "a.b", "1", "_", "r.ab"]) == matched


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "*a",
        "[[:nope:]]",
        "\\p{Greek}",
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        "(a)\\1",
        "(?>a)b",
        "a++",
        "(a{99}){99}{9}",
        "(?:){4000000000}",
        r"\P{Any}",
        "a" * 70_000,
    ],
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


def test_a_pattern_that_is_too_much_work_for_so_many_names_is_refused() -> None:
    names = [f"{number**20 % (1 << 90):090b}".replace("0", "a").replace("1", "b") for number in range(2_000)]
    begun_s = perf_counter()
    with pytest.raises(ProtocolError, match="too long"):
        matching("(.*a.{6}){1,90}c", names)
    assert perf_counter() - begun_s < 2


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("(.+)+", {"straße", "STRASSE", "заказ-1", "a b", "٣", "𝒳"}),
        (r"\pL+", {"straße", "STRASSE", "𝒳"}),
        (r"(\p{Latin}+)+", {"straße", "STRASSE"}),
        (r"[^\W]+", {"STRASSE"}),
        (r"(\PL|\d)+", {"٣"}),
        (r"\d", set()),
        (r"(?i)(ЗАКАЗ|x)+-.*.*", {"заказ-1"}),
        (r"(?i)[à-ÿа-я-]+\d", {"заказ-1"}),
        (r"(.+[[:blank:]].+)+", {"a b"}),
        (r"[[:^ascii:]]", {"٣", "𝒳"}),
        (r"(?s)(.|x)*\n.*.*", {"two\nlines"}),
    ],
)
def test_names_may_have_any_characters(pattern: str, matched: set[str]) -> None:
    assert matching(pattern, ["straße", "STRASSE", "заказ-1", "a b", "٣", "𝒳", "two\nlines"]) == matched


def test_a_long_name_is_matched_without_going_back() -> None:
    names = ["a" * 30_000, "a" * 30_000 + "b"]
    begun_s = perf_counter()
    assert matching("a*a*b", names) == {names[1]}
    assert perf_counter() - begun_s < 2
