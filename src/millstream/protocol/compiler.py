"""Turns declarations into functions: source is written, compiled and executed once for each class and version."""

import linecache
from collections.abc import Callable
from typing import Any

from millstream.protocol.decoding import DecoderSource
from millstream.protocol.encoding import EncoderSource
from millstream.protocol.schema import Message
from millstream.protocol.source import SourceWriter

Decoder = Callable[[Any, int], Any]
Encoder = Callable[[Any], Any]


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """``decode(buffer, at) -> message``; bytes that are missing or bad raise what ``codec`` names malformed."""
    return _execute(DecoderSource(cls, version, version >= cls.FLEXIBLE_FROM), "decode")


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """``encode(message)``: bytes, or a list of parts for a class that holds records."""
    return _execute(EncoderSource(cls, version, version >= cls.FLEXIBLE_FROM), "encode")


def _execute(source: SourceWriter, function: str) -> Callable[..., Any]:
    first, last = source.cls.VERSIONS  # type: ignore[attr-defined]
    assert first <= source.version <= last, f"{source.cls.__name__} has no version {source.version}"
    text = source.write()
    name = f"<{function} {source.cls.__name__} v{source.version}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # Tracebacks show the source.
    namespace = source.constants
    exec(compile(text, name, "exec"), namespace)
    made: Callable[..., Any] = namespace[function]
    return made
