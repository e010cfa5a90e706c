"""What is handed to librdkafka: our defaults, the promises of a choice, and whatever the application sets itself."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from millstream.client.application import arguments
from millstream.client.application.errors import BadSetting, MillstreamError, translated

BOOTSTRAP_VARIABLE = "MILLSTREAM_BOOTSTRAP"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
LOGGER = logging.getLogger("millstream.client")
#: What librdkafka has to say; it tries again by itself, and would say the same each time.
LIBRARY_LOGGER = logging.getLogger("millstream.client.librdkafka")
QUIET_S = 30.0

#: Settings of Kafka's Java clients that librdkafka has not, and what stands for them here.
_ELSEWHERE = {
    "key.serializer": "pass key_serializer=…",
    "value.serializer": "pass value_serializer=…",
    "key.deserializer": "pass key_deserializer=…",
    "value.deserializer": "pass value_deserializer=…",
    "partitioner.class": "pass partitioner=…",
    "buffer.memory": "set queue.buffering.max.kbytes",
    "max.block.ms": "a full queue waits; set queue.buffering.max.messages for its size",
    "max.request.size": "set message.max.bytes",
    "fetch.max.wait.ms": "set fetch.wait.max.ms",
    "default.api.timeout.ms": "pass timeout_s=… to the call",
}
#: Names of one setting: a promise about one holds for the other.
_ALIASES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "metadata.broker.list": "bootstrap.servers",
}
_NAMES = frozenset({"group.id", "group.instance.id", "transactional.id"})
#: How a value may be spelled that means the same.
_SAME = {"-1": "all", "true": "True", "false": "False"}

Made = TypeVar("Made")


class Once(logging.Filter):
    """Lets a message through once in a while, however often it is said."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage().partition(" (after ")[0]
        now_s = time.monotonic()
        if now_s - self._said_s.get(text, -QUIET_S) < QUIET_S:
            return False
        if len(self._said_s) > 1_000:
            self._said_s.clear()
        self._said_s[text] = now_s
        return True


LIBRARY_LOGGER.addFilter(Once())


def bootstrap_or_default(bootstrap: str | None) -> str:
    """The brokers to ask first: those given, else $MILLSTREAM_BOOTSTRAP, else this machine's port 9092."""
    return bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP


def merged(
    bootstrap: str | None, preferences: Mapping[str, Any], promises: Mapping[str, Any], config: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All settings together; an own one beats a preference, and is refused where it contradicts a promise."""
    own = {_ALIASES.get(name, name): value for name, value in (config or {}).items()}
    if bootstrap is not None and "bootstrap.servers" in own:
        raise BadSetting("the brokers are given twice: bootstrap=… and bootstrap.servers in config")
    for name, promised in promises.items():
        if name in own and _spelling(own[name]) != _spelling(promised):
            raise BadSetting(
                f"{name}={own[name]!r} contradicts what was chosen, which needs {name}={promised!r}; "
                "leave it out, or choose another delivery"
            )
    ours = {
        "bootstrap.servers": bootstrap_or_default(bootstrap),
        "logger": LIBRARY_LOGGER,
        # A broker that was restarted is found again in a second, and not in ten.
        "reconnect.backoff.max.ms": 1_000,
        # Without one, a poll raises what a later call will raise at a better place.
        "error_cb": lambda error: LOGGER.debug("%s", error),
    }
    settings = {**ours, **preferences, **own, **promises}
    for name, value in settings.items():
        if name in _NAMES:
            arguments.name(name, value)
        elif isinstance(value, str) and "\0" in value:
            raise BadSetting(f"{name}={value!r} holds a NUL")
    return settings


def made(make: Callable[[dict[str, Any]], Made], settings: dict[str, Any]) -> Made:
    """A client of confluent-kafka; a setting it does not know, or a value it does not take, is named."""
    try:
        return make(settings)
    except KafkaException as exception:
        raise _bad_setting(exception, settings) from exception
    except (TypeError, ValueError) as exception:
        raise BadSetting(f"these settings do not go together: {exception}") from exception


def _bad_setting(exception: KafkaException, settings: Mapping[str, Any]) -> MillstreamError:
    error = exception.args[0]
    if not isinstance(error, KafkaError) or error.code() != KafkaError._INVALID_ARG:
        return translated(exception, "starting a client")
    text = error.str()
    unknown = next((name for name in settings if f'"{name}"' in text), None)
    if unknown and "No such configuration property" in text:
        advice = _ELSEWHERE.get(unknown, "librdkafka's CONFIGURATION.md lists those there are")
        return BadSetting(f"there is no setting {unknown!r}: {advice}", code=error.name())
    return BadSetting(f"a setting is wrong: {text}", code=error.name())


def _spelling(value: object) -> str:
    text = str(value)
    return _SAME.get(text.lower(), text)


def heard(call: Callable[..., Made], *arguments: Any, doing: str = "sending") -> Made:
    """A call of confluent-kafka that waits; Ctrl-C in the middle of it is KeyboardInterrupt, as anywhere."""
    try:
        return call(*arguments)
    except SystemError as lost:  # It drops an exception that meets a callback of its own; no other can be on its way.
        raise KeyboardInterrupt from lost
    except KafkaException as exception:  # What is fatal is raised again by whatever is called next.
        raise translated(exception, doing) from exception
