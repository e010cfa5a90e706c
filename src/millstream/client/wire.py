"""Connections of clients: errors that say what to do, and addresses as people write them."""

from millstream.net import channel
from millstream.net.channel import Address, Answered, Connection, ConnectionLost
from millstream.net.network import TcpNetwork

__all__ = [
    "CLIENT_ID",
    "Address",
    "Answered",
    "Connection",
    "ConnectionLost",
    "Unreachable",
    "connect",
    "parse_addresses",
]

CLIENT_ID = "millstream"


class Unreachable(ConnectionError):
    """No broker could be connected to: what was seen, and where it helps, what to do about it."""

    def __init__(self, seen: str, advice: str = "") -> None:
        super().__init__(f"{seen}; {advice}" if advice else seen)
        self.seen = seen


async def connect(address: Address, *, client_id: str = CLIENT_ID, timeout_s: float = 10.0) -> Connection:
    """A connection to the broker at ``address`` that knows its versions; Unreachable when there is none."""
    try:
        connection = await channel.reach(TcpNetwork(), address, client_id=client_id, timeout_s=timeout_s)
    except TimeoutError as error:
        raise Unreachable(str(error)) from None
    except ConnectionRefusedError:
        advice = "is a broker running? start one with: millstream serve"
        raise Unreachable(f"nothing listens at {address}", advice) from None
    except OSError as error:
        raise Unreachable(f"{address} cannot be reached: {error.strerror or error}") from None
    await connection.negotiate(timeout_s)
    return connection


def parse_addresses(text: str, default_port: int = 9092) -> list[Address]:
    """``host:port,host:port`` as addresses; ValueError when one cannot be read."""
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or part.endswith("]") or (part.count(":") > 1 and not part.startswith("[")):
            host, port = part, str(default_port)
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not HOST:PORT")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no broker is named; give one as HOST:PORT")
    return addresses
