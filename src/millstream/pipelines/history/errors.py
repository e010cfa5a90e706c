"""What is wrong with a query."""


class QueryError(ValueError):
    """A query that cannot be run; the message is one line that says what is wrong and what would help."""
