"""Messages to bytes and back.

Codecs are compiled on first use, once for each class and version; ``tuned`` replaces those of the hot path.
"""

import struct
from typing import Any, Protocol, TypeVar

from millstream.model.errors import CorruptFrame
from millstream.protocol.compiler import Decoder, Encoder, compile_decoder, compile_encoder
from millstream.protocol.schema import Message
from millstream.protocol.tuned import TUNED_DECODERS, TUNED_ENCODERS, tune
from millstream.protocol.wire import Buffer

_M = TypeVar("_M", bound=Message)


class Sized(Protocol):
    """Anything that knows how many bytes it stands for, as a slice of a file does."""

    def __len__(self) -> int: ...


#: A stretch of an encoded message: bytes, or whatever was put into its Records fields.
Part = bytes | memoryview | Sized

#: What reading past the end, bad UTF-8 and the like raise inside a decoder.
_MALFORMED = (struct.error, IndexError, UnicodeDecodeError)

_decoders: dict[type, dict[int, Decoder]] = {}
_encoders: dict[type, dict[int, Encoder]] = {}


def decode(cls: type[_M], buffer: Buffer, version: int, at: int = 0) -> _M:
    """The message that starts at ``at``; CorruptFrame where the bytes cannot be one.

    Records fields are views into ``buffer``, uncopied.  Bytes after the message are not looked at.
    """
    try:
        read = _decoders[cls][version]
    except KeyError:
        read = decoder(cls, version)
    try:
        message: _M = read(buffer, at)
    except _MALFORMED as fault:
        raise CorruptFrame(f"{cls.__name__} v{version}: {fault}") from fault
    return message


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message; its records, if any, must be bytes and are copied."""
    cls = type(message)
    try:
        write = _encoders[cls][version]
    except KeyError:
        write = encoder(cls, version)
    encoded: Any = write(message)
    return encoded if type(encoded) is bytes else b"".join(encoded)


def encode_parts(message: Message, version: int) -> list[Part]:
    """The bytes of a message in parts, with what its Records fields hold passed on as it is."""
    cls = type(message)
    try:
        write = _encoders[cls][version]
    except KeyError:
        write = encoder(cls, version)
    encoded: Any = write(message)
    return [encoded] if type(encoded) is bytes else encoded


def decoder(cls: type[Message], version: int) -> Decoder:
    """The function that decodes one class at one version, made now if need be."""
    known = _decoders.setdefault(cls, {})
    if version not in known:
        known[version] = tune(TUNED_DECODERS, cls, version, compile_decoder(cls, version))
    return known[version]


def encoder(cls: type[Message], version: int) -> Encoder:
    """The function that encodes one class at one version, made now if need be; a list of parts if it holds records."""
    known = _encoders.setdefault(cls, {})
    if version not in known:
        known[version] = tune(TUNED_ENCODERS, cls, version, compile_encoder(cls, version))
    return known[version]


__all__ = ["Part", "decode", "decoder", "encode", "encode_parts", "encoder"]
