"""Java's regular expressions in Python's."""

import pytest

from millstream.pipelines.connect.patterns import compile_pattern, is_pattern, replaced


@pytest.mark.parametrize(
    ("java", "text"),
    [
        (r"(?<a>x)\k<a>", "xx"),
        (r"\Qa.b\E.*", "a.bc"),
        (r"\p{Alpha}[\p{Digit}_]+\P{Punct}", "a1_x"),
        (r"a++b", "aab"),
        (r"(?i)ABC", "abc"),
    ],
)
def test_what_java_matches_is_matched(java: str, text: str) -> None:
    assert compile_pattern(java).fullmatch(text)


@pytest.mark.parametrize("java", ["(", "[", r"\p{Nothing}", "*"])
def test_what_is_no_pattern_is_known(java: str) -> None:
    assert not is_pattern(java)


@pytest.mark.parametrize(
    ("replacement", "text"), [("$2-$1", "b-a"), ("$12", "a2"), ("${n}", "a"), (r"\$1\\", "$1\\"), ("$0", "ab")]
)
def test_groups_are_put_into_replacements(replacement: str, text: str) -> None:
    match = compile_pattern("(?<n>a)(b)").fullmatch("ab")
    assert match is not None
    assert replaced(match, replacement) == text


def test_a_group_that_is_not_there_is_an_error() -> None:
    match = compile_pattern("a").fullmatch("a")
    assert match is not None
    for replacement in ("$1", "$", "${n}"):
        with pytest.raises(IndexError):
            replaced(match, replacement)
