"""Coroutines begun at once: what needs no waiting costs no task and keeps its place in the order of requests."""

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


async def resumed(coroutine: Coroutine[Any, Any, T], awaited: Any) -> T:
    """The rest of a coroutine that was stepped by hand until it first waited, for ``awaited``.

    To be run as a task: whoever steps a coroutine by hand cannot be woken, a task can.
    """
    result: T = await _relay(coroutine, awaited)
    return result


@types.coroutine
def _relay(coroutine: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    try:
        while True:
            try:
                value = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(value)
    except StopIteration as stop:
        result: T = stop.value
        return result
