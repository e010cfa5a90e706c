"""What is text, a comment or a quoted name in SQL, and what is not."""

import pytest

from millstream.pipelines.history.errors import QueryError
from millstream.pipelines.history.tokens import Kind, text_of, tokens


def kinds(sql: str) -> list[tuple[str, str]]:
    return [(token.kind.name, token.text) for token in tokens(sql)]


@pytest.mark.parametrize(
    "literal",
    [
        "'plain'",
        "'it''s'",
        r"'it\'s'",
        '"double"',
        '"a \\" b"',
        r"r'c:\'",
        'R"\\"',
        "$$a 'b' $ c$$",
        "$x$ $$ $x$",
        "'-- no comment'",
        "'/* nor this'",
        "''",
    ],
)
def test_a_string_is_one_token_whatever_is_in_it(literal: str) -> None:
    assert kinds(f"SELECT {literal}, b") == [
        ("WORD", "SELECT"),
        ("STRING", literal),
        ("SIGN", ","),
        ("WORD", "b"),
    ]


@pytest.mark.parametrize(
    "comment", ["-- a 'quote\n", "-- goes on \\\n 'here\n", "/* it's */", "/* a /* b */ ' */", "/*+ BROADCAST(t) */"]
)
def test_comments_are_passed_over(comment: str) -> None:
    assert kinds(f"a {comment} b") == [("WORD", "a"), ("WORD", "b")]


def test_quoted_names_numbers_and_signs() -> None:
    assert kinds("`a``'b` >= 1.5e3 - 10L => x_1") == [
        ("QUOTED", "`a``'b`"),
        ("SIGN", ">"),
        ("SIGN", "="),
        ("NUMBER", "1.5e3"),
        ("SIGN", "-"),
        ("NUMBER", "10L"),
        ("SIGN", "=>"),
        ("WORD", "x_1"),
    ]
    (quoted,) = tokens("`a``b`")
    assert quoted.kind is Kind.QUOTED and quoted.name == "a`b"


def test_tokens_know_their_places() -> None:
    sql = "a /* x */ 'b'  c"
    assert [sql[token.start : token.end] for token in tokens(sql)] == ["a", "'b'", "c"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 'abc", "the quote ' (line 1, pos 7) is never closed"),
        ("SELECT\n `abc", "the quote ` (line 2, pos 1) is never closed"),
        ("SELECT /* a /* b */", "the comment (line 1, pos 7) is never closed"),
    ],
)
def test_what_is_never_closed_is_named_with_its_place(sql: str, said: str) -> None:
    with pytest.raises(QueryError) as refusal:
        tokens(sql)
    assert str(refusal.value) == said


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ("'it''s'", "it's"),
        (r"'it\'s\n\\ \u00e9'", "it's\n\\ é"),
        ('"a ""b"""', 'a "b"'),
        (r"r'a\n'", r"a\n"),
        ("$$it's$$", "it's"),
        ("$x$a$$b$x$", "a$$b"),
    ],
)
def test_a_literal_stands_for_its_text(literal: str, text: str) -> None:
    assert text_of(literal) == text
