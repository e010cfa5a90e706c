"""What is refused before a query starts, or ends one."""


class StreamsError(ValueError):
    """A pipeline that cannot be built, with the operator, the value and what would help."""
