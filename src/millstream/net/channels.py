"""Ways to the other brokers of the cluster, as every room that speaks to them is given them."""

from collections.abc import Callable
from typing import Any, Protocol


class Channels(Protocol):
    """Ways to the brokers, this one included."""

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The broker's response: a message whose byte fields are its own, so that they stay valid.

        OSError (ConnectionRefusedError and ConnectionResetError told apart) or TimeoutError when none came; whether
        the request was served is not known then, unless the connection was refused.
        """
        ...


class Posted(Protocol):
    """The connection that a request was posted on."""

    def close(self) -> None:
        """Hang up; every request that waits for an answer on it is called back with None."""
        ...

    def pace(self, rest_s: float) -> None:
        """From now on, rest for so long after each turn of reading; 0 for not at all."""
        ...


#: Called with an answer's bytes, valid only during the call, and what decodes them or a copy; or with None.
Answered = Callable[[memoryview | None, Callable[[memoryview], Any]], None]


class PostingChannels(Channels, Protocol):
    """Channels that can also be used without waiting, where every turn of the loop counts.

    Requests of one kind in different lanes do not wait for each other.
    """

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None, lane: int = 0) -> Any:
        """See ``Channels.send``."""
        ...

    def post(self, broker_id: int, request: Any, answered: Answered, *, lane: int = 0) -> Posted | None:
        """Send on the connection that stands, and have ``answered`` called in the turn in which the answer comes.

        None when there is no connection: nothing is sent then, and ``send`` makes one.
        """
        ...
