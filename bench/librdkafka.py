"""librdkafka itself, as confluent-kafka carries it, without a Python object per record.

confluent-kafka makes a Python object of each record, which costs more than any broker here does; through these few
functions a call moves thousands, and what is measured is librdkafka and the server.
"""

import ctypes
from pathlib import Path

import confluent_kafka

CONSUMER, PRODUCER = 1, 0
COPY_PAYLOAD = 0x2
_ERROR_BYTES = 512


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


def _load() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    bundled = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka*.so*"))
    library = ctypes.CDLL(str(bundled[0]) if bundled else "librdkafka.so.1")
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_topic_new"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


class Handle:
    """A producer or consumer for partition 0 of one topic."""

    def __init__(self, kind: int, topic: str, settings: dict[str, object]) -> None:
        self._library = _load()
        self._messages: ctypes.Array[Message] | None = None
        conf = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        for name, value in settings.items():
            if self._library.rd_kafka_conf_set(conf, name.encode(), str(value).encode(), error, _ERROR_BYTES):
                raise ValueError(error.value.decode())
        handle = self._library.rd_kafka_new(kind, conf, error, _ERROR_BYTES)
        if not handle:
            raise RuntimeError(error.value.decode())
        self._handle = ctypes.c_void_p(handle)
        self._topic = ctypes.c_void_p(self._library.rd_kafka_topic_new(self._handle, topic.encode(), None))

    def produce(self, value: bytes, count: int) -> int:
        """Queue ``count`` copies of a value; how many of them the queue had room for."""
        if self._messages is None or len(self._messages) != count:
            self._value = ctypes.create_string_buffer(value, len(value))
            self._messages = (Message * count)()
            for message in self._messages:
                message.payload, message.len = ctypes.addressof(self._value), len(value)
        return int(self._library.rd_kafka_produce_batch(self._topic, 0, COPY_PAYLOAD, self._messages, count))

    def poll(self, timeout_ms: int) -> None:
        self._library.rd_kafka_poll(self._handle, timeout_ms)

    def queued(self) -> int:
        return int(self._library.rd_kafka_outq_len(self._handle))

    def flush(self, timeout_ms: int) -> bool:
        return not self._library.rd_kafka_flush(self._handle, timeout_ms)

    def start(self, offset: int) -> None:
        if self._library.rd_kafka_consume_start(self._topic, 0, ctypes.c_int64(offset)):
            raise RuntimeError("the consumer did not start")

    def consume(self, timeout_ms: int) -> int:
        """Take what has arrived and drop it; how many records that was.

        The callback is a C function that ignores its arguments, so that no record enters Python.
        """
        ignore = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p)
        return int(self._library.rd_kafka_consume_callback(self._topic, 0, timeout_ms, ignore, None))

    def stop(self) -> None:
        self._library.rd_kafka_consume_stop(self._topic, 0)
