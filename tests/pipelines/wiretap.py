"""A port that passes everything on to a broker, and keeps what was asked there."""

import socket
import threading
from types import TracebackType
from typing import Self


class Wiretap:
    """Listens before a broker; whoever begins with this address is heard until it goes on to the broker's own."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        #: By connection: all that was sent to the broker.
        self.heard: list[bytearray] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # Closed.
                return
            broker = socket.create_connection(self._broker)
            self.heard.append(bytearray())
            for source, target, kept in ((client, broker, self.heard[-1]), (broker, client, bytearray())):
                threading.Thread(target=_pass_on, args=(source, target, kept), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    """Until one side is closed; each direction closes what it writes to, and so ends the other."""
    with target:
        try:
            while data := source.recv(65_536):
                kept += data
                target.sendall(data)
        except OSError:
            return
