"""How a measurement learns that it is over."""

import asyncio


def new_end() -> asyncio.Future[None]:
    """A future for the end of a measurement; a failure after Ctrl-C, when nobody waits for it any more, is not news."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    over.add_done_callback(lambda done: done.cancelled() or done.exception())
    return over
