"""Spark's pages in one line."""

import pytest

from millstream.pipelines.history.complaints import complaint


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved. Did you mean one of the "
            "following? [`key`, `value`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- OneRowRelation\n",
            "A column with name `x` cannot be resolved. Did you mean one of the following? [`key`, `value`] "
            "(line 1, pos 7)",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'b'. SQLSTATE: 42601 (line 2, pos 9)\n\n== SQL ==\na b\n",
            "Syntax error at or near 'b' (line 2, pos 9)",
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found. Verify the spelling.\nSearch path: []. "
            "SQLSTATE: 42P01; line 1 pos 14;\n'Project [*]\n",
            "The table or view `t` cannot be found; a topic is read with FROM topic('name')",
        ),
        ("[USER_RAISED_EXCEPTION] a record does not fit: not JSON SQLSTATE: P0001", "a record does not fit: not JSON"),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: Could not parse Master URL: 'foo'\n\tat org.apache.spark.X(X.scala:1)",
            "Could not parse Master URL: 'foo'",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source read: Traceback (most recent call last):\n"
            '  File "a.py", line 1, in b\n    raise SettingError("x")\n'
            "millstream.config.setting.SettingError: path=/x: is no log directory\n SQLSTATE: 38000",
            "path=/x: is no log directory",
        ),
        ("plain words", "plain words"),
    ],
)
def test_the_sentence_that_tells_what_is_wrong_is_kept(text: str, line: str) -> None:
    assert complaint(text) == line
