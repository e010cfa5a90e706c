"""Bugs that are known, planted in the production code to see that the simulation finds them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

BUGS: dict[str, Callable[[], object]] = {}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code has this bug inside the block."""
    yield
