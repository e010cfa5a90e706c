"""Ways to the other brokers of the cluster, as every room that speaks to them is given them."""

from typing import Any, Protocol


class Channels(Protocol):
    """Ways to the brokers, this one included."""

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        """The broker's response: a message whose byte fields are its own, so that they stay valid.

        OSError (ConnectionRefusedError and ConnectionResetError told apart) or TimeoutError when none came; whether
        the request was served is not known then, unless the connection was refused.
        """
        ...
