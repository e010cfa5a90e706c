"""Listeners, as ``NAME://host:port`` says them."""

import re
from ipaddress import ip_address
from typing import NamedTuple

from millstream.config.setting import Check

PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.]+\]|[^\[\]:/ ]*):([0-9]{1,5})")


class Listener(NamedTuple):
    """One place to listen at or to be found at; an empty host means every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listener(text: str) -> Listener:
    """The listener ``text`` names; ValueError when it is not one."""
    found = _LISTENER.fullmatch(text)
    if not found or int(found[3]) > 65535:
        raise ValueError(f"{text!r} is not NAME://host:port")
    return Listener(found[1].upper(), found[2].strip("[]"), int(found[3]))


def parse_place(text: str) -> Listener:
    """The place ``HOST:PORT`` names, for a listener that is not the clients'; ValueError when it is none."""
    return parse_listener(f"HTTP://{text}")


def parse_protocol_map(pairs: tuple[str, ...]) -> dict[str, str]:
    """Listener name to security protocol; ValueError where a pair names none."""
    protocols = {}
    for pair in pairs:
        name, colon, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not name or not colon or protocol not in SECURITY_PROTOCOLS:
            raise ValueError(f"{pair!r} is not NAME:PROTOCOL")
        protocols[name] = protocol
    return protocols


def parse_limits(pairs: tuple[str, ...]) -> dict[str, int]:
    """Address to limit; ValueError where a pair is not ADDRESS:NUMBER."""
    limits = {}
    for pair in pairs:
        address, _, limit = pair.rpartition(":")
        if not limit.isdecimal():
            raise ValueError(f"{pair!r} is not ADDRESS:NUMBER")
        limits[str(ip_address(address.strip("[]")))] = int(limit)
    return limits


def _are_listeners(texts: tuple[str, ...]) -> bool:
    listeners = [parse_listener(text) for text in texts]
    places = [(listener.host, listener.port) for listener in listeners if listener.port]
    names = {listener.name for listener in listeners}
    return bool(listeners) and len(names) == len(listeners) and len(set(places)) == len(places)


LISTENERS_CHECK = Check("each NAME://host:port with a name and a place of its own", _are_listeners)
PROTOCOL_MAP_CHECK = Check(
    f"each NAME:PROTOCOL, the protocol one of {', '.join(SECURITY_PROTOCOLS)}",
    lambda pairs: bool(pairs) and bool(parse_protocol_map(pairs)),
)
PLACE_CHECK = Check("HOST:PORT", lambda text: bool(parse_place(text)))
LIMITS_CHECK = Check("each ADDRESS:NUMBER, not the name of a host", lambda pairs: parse_limits(pairs) is not None)
