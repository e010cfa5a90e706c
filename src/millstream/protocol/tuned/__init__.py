"""Hand-tuned codecs for the hot path, each proved equal to the compiled one it replaces.

A tuned codec knows one common shape (one topic, one partition, nothing tagged) and handles it with as few calls as
can be; whatever looks different it hands to the compiled codec, so that it never decides what is malformed.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from millstream.protocol.messages.fetch import FetchRequest, FetchResponse
from millstream.protocol.messages.metadata import MetadataResponse
from millstream.protocol.messages.produce import ProduceRequest, ProduceResponse
from millstream.protocol.schema import Message
from millstream.protocol.tuned.fetch import fetch_request_decoder, fetch_response_encoder
from millstream.protocol.tuned.metadata import metadata_response_encoder
from millstream.protocol.tuned.produce import produce_request_decoder, produce_response_encoder


class Tuned(NamedTuple):
    """Versions ``first`` to ``last`` of a class are made by ``make(version, compiled)``."""

    first: int
    last: int
    make: Callable[[int, Callable[..., Any]], Callable[..., Any]]


TUNED_DECODERS: Final[dict[type[Message], Tuned]] = {
    ProduceRequest: Tuned(3, 13, produce_request_decoder),
    FetchRequest: Tuned(11, 18, fetch_request_decoder),
}

TUNED_ENCODERS: Final[dict[type[Message], Tuned]] = {
    ProduceResponse: Tuned(9, 13, produce_response_encoder),
    FetchResponse: Tuned(12, 18, fetch_response_encoder),
    MetadataResponse: Tuned(7, 13, metadata_response_encoder),
}


def tune(table: dict[type[Message], Tuned], cls: type[Message], version: int, compiled: Any) -> Any:
    """The tuned codec of a class and version where the table has one, else the compiled one."""
    tuned = table.get(cls)
    if tuned is None or not tuned.first <= version <= tuned.last:
        return compiled
    return tuned.make(version, compiled)
