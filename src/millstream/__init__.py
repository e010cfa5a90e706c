"""Millstream: a Kafka-compatible event-streaming platform in Python.

The application API is here by name (``millstream.Producer`` and the rest; docs/api.md explains it) and is loaded when
first asked for, so that the command line and the broker start without it.
"""

__version__ = "0.1.0"

#: Where each public name lives; ``__init__.pyi`` tells type checkers.
_HOMES = {
    "client.application.admin": ("Admin",),
    "client.application.consumer": ("Consumer",),
    "client.application.delivery": ("Delivery",),
    "client.application.errors": (
        "BadSetting",
        "BadUse",
        "DeliveryFailed",
        "Fenced",
        "GroupInUse",
        "MillstreamError",
        "PartitionsLost",
        "Refused",
        "SerializationFailed",
        "TopicExists",
        "TransactionAborted",
        "UnknownGroup",
        "UnknownTopic",
        "Unreachable",
    ),
    "client.application.open_transactions": ("TransactionInfo",),
    "client.application.outputs": ("Output",),
    "client.application.partitioners": ("key_hash", "round_robin"),
    "client.application.process": ("process",),
    "client.application.processor": ("Processed",),
    "client.application.producer": ("Producer",),
    "client.application.record": ("Record",),
    "client.application.sent": ("Delivered", "Sent"),
    "client.application.serialization": ("Deserializer", "Serializer"),
    "client.application.transaction": ("Transaction",),
    "model.ids": ("TopicPartition",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = [*_HOME_OF]  # noqa: PLE0604  # What `from millstream import *` gives.


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'millstream' has no attribute {name!r}")
    from importlib import import_module

    try:
        found: object = getattr(import_module(f"millstream.{_HOME_OF[name]}"), name)
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        raise ImportError(
            f"millstream.{name} needs confluent-kafka: install it with `pip install 'millstream[client]'`"
        ) from missing
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
