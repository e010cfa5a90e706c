"""Calls of ``topic(…)`` in a query, wherever they stand: all are found, and nothing else is touched."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.pipelines.history.calls import rewrite

#: What may stand in a query and hides or shows nothing: each is whole by itself.
PIECES = st.sampled_from(
    [
        "SELECT a",
        "'topic(''x'')'",
        r"'it\'s topic(\'x\')'",
        "\"FROM topic('x')\"",
        r"r'\'",
        "`topic('x')`",
        "-- FROM topic('x')\n",
        "/* topic('x') /* ' */ */",
        "$$ topic('x') ' $$",
        "topic",
        "topic = 'x'",
        "b.topic('x')",
        "(a + 1)",
        "\n",
        "1.5",
        "é",
    ]
)
#: A call, and the topic that it names.
CALLS = st.sampled_from(
    [
        ("FROM topic('orders')", "orders"),
        ("JOIN Topic( 'orders', headers => true )", "orders"),
        (", TOPIC('it.s-2', from_offset => -5) VERSION AS OF 7", "it.s-2"),
        ("FROM\ntopic /* why */ (\n'refunds', schema => 'a STRING COMMENT \\'topic(1)\\'')", "refunds"),
    ]
)


@given(st.lists(st.one_of(PIECES, CALLS), min_size=1, max_size=12))
def test_every_call_is_replaced_and_all_else_is_left_where_it_was(parts: list[str | tuple[str, str]]) -> None:
    called = [part[1] for part in parts if isinstance(part, tuple)]
    sql = "SELECT " + " ".join(part if isinstance(part, str) else part[0] for part in parts) + " END"
    rewritten = rewrite(sql)
    assert {call.topic for call in rewritten.calls.values()} == set(called)
    assert len(rewritten.sql) == len(sql)
    # Outside the names of views and the blanks behind them, not a letter differs.
    changed = [at for at, (old, new) in enumerate(zip(sql, rewritten.sql, strict=True)) if old != new]
    names = [f"`{name}`" for name in rewritten.calls]
    left = rewritten.sql
    for name in names:
        left = left.replace(name, " " * len(name))
    assert all(left[at].isspace() for at in changed)
    # What was rewritten once has nothing left to rewrite.
    assert rewrite(rewritten.sql) == (rewritten.sql, {})
