"""Listening and connecting, as the broker is given them."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Server(Protocol):
    """Something that listens until it is closed."""

    @property
    def sockets(self) -> Sequence[Any]: ...

    async def start_serving(self) -> None:
        """Accept from now on; before, the place is only taken."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    """A way to be reached and to reach others."""

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int = 0) -> Server:
        """Take the place; connections are accepted once ``start_serving`` is called.

        Port 0 takes any that is free.  OSError says in one line why it cannot be.
        """
        ...

    async def connect(self, factory: Callable[[], P], host: str, port: int) -> tuple[asyncio.BaseTransport, P]:
        """Connect to a listening place.

        ConnectionRefusedError where nobody listens, else another OSError; waits for as long as nobody answers.
        """
        ...

    def host_name(self) -> str:
        """A name or address that others reach this machine by."""
        ...


class TcpNetwork:
    """The machine's own network."""

    def __init__(self, backlog: int = 1024) -> None:
        self._backlog = backlog

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int = 0) -> Server:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_server(factory, host or None, port, backlog=self._backlog, start_serving=False)
        except OSError as error:
            shown = host or "*"
            if error.errno == errno.EADDRINUSE:
                why = f"port {port} on {shown} is taken by another program; stop it or choose another with --port"
            else:
                why = f"cannot listen on {shown}:{port}: {os.strerror(error.errno) if error.errno else error}"
            raise OSError(error.errno, why) from error

    async def connect(self, factory: Callable[[], P], host: str, port: int) -> tuple[asyncio.BaseTransport, P]:
        return await asyncio.get_running_loop().create_connection(factory, host, port)

    def host_name(self) -> str:
        name = socket.gethostname()
        try:
            socket.getaddrinfo(name, None)
        except OSError:
            return "127.0.0.1"  # A name that nobody can look up is worse than this machine alone.
        return name
