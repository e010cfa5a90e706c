"""What can go wrong for an application, each as an exception that says what was wrong and what to do about it."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException


class MillstreamError(Exception):
    """Every error of this API.  ``code`` is Kafka's name for it, where Kafka has one."""

    def __init__(self, detail: str, *, code: str = "", retriable: bool = False) -> None:
        super().__init__(detail)
        self.code = code
        self.retriable = retriable


class BadSetting(MillstreamError, ValueError):
    """An argument or a setting that cannot be."""


class BadUse(MillstreamError, RuntimeError):
    """A call at the wrong time: on something closed, or outside of a transaction."""


class SerializationFailed(MillstreamError, ValueError):
    """A key or value that its serializer or deserializer did not take; the cause is chained."""


class DeliveryFailed(MillstreamError):
    """A record that was sent and did not, or perhaps did not, arrive."""


class Unreachable(MillstreamError):
    """No broker answered in time."""


class Refused(MillstreamError):
    """The broker said no."""


class UnknownTopic(Refused):
    """There is no such topic or partition."""


class TopicExists(Refused):
    """There is such a topic already."""


class UnknownGroup(Refused):
    """There is no such consumer group."""


class GroupInUse(Refused):
    """The group has members, and what was asked needs it empty."""


class PartitionsLost(Refused):
    """The partitions went to another member of the group before the commit; its records will be handed out again."""


class TransactionAborted(MillstreamError):
    """The transaction was aborted: nothing of it will be seen, and the same work can be done again in a new one."""


class Fenced(MillstreamError):
    """Another took its place, its transaction lasted too long, or an administrator aborted it: make a new one."""


#: A broker says the same of all three.
_FENCED_BY = (
    "another producer took its transactional id, its transaction outlasted transaction.timeout.ms, "
    "or an administrator aborted it (`millstream txn abort`); make a new one"
)
#: Kafka's codes -> the exception, and what to do.
_KNOWN: dict[int, tuple[type[MillstreamError], str]] = {
    KafkaError._TRANSPORT: (Unreachable, "is a broker running there (`millstream serve`)?"),
    KafkaError._ALL_BROKERS_DOWN: (Unreachable, "is a broker running there (`millstream serve`)?"),
    KafkaError._RESOLVE: (Unreachable, "the host name is not known"),
    KafkaError._TIMED_OUT: (Unreachable, "is a broker running there (`millstream serve`)?"),
    KafkaError.REQUEST_TIMED_OUT: (Unreachable, "the broker is there but slow; give it a longer time-out"),
    KafkaError._MSG_TIMED_OUT: (DeliveryFailed, "no broker took it within `message.timeout.ms`"),
    KafkaError.MSG_SIZE_TOO_LARGE: (
        Refused,
        "raise `message.max.bytes` of the producer and `max.message.bytes` of the topic, or send less at once",
    ),
    KafkaError.UNKNOWN_TOPIC_OR_PART: (UnknownTopic, "create it with Admin().create_topic(…)"),
    KafkaError._UNKNOWN_TOPIC: (UnknownTopic, "create it with Admin().create_topic(…)"),
    KafkaError._UNKNOWN_PARTITION: (UnknownTopic, "the topic has fewer partitions"),
    KafkaError.TOPIC_ALREADY_EXISTS: (TopicExists, "exist_ok=True leaves it as it is"),
    KafkaError.GROUP_ID_NOT_FOUND: (UnknownGroup, "Admin().groups() lists them"),
    KafkaError.NON_EMPTY_GROUP: (GroupInUse, "stop its consumers first"),
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC: (GroupInUse, "stop its consumers first"),
    KafkaError.ILLEGAL_GENERATION: (PartitionsLost, "go on: the group has moved on"),
    KafkaError.UNKNOWN_MEMBER_ID: (PartitionsLost, "go on: the group has moved on"),
    KafkaError.STALE_MEMBER_EPOCH: (PartitionsLost, "go on: the group has moved on"),
    KafkaError.FENCED_MEMBER_EPOCH: (PartitionsLost, "go on: the group has moved on"),
    KafkaError.REBALANCE_IN_PROGRESS: (PartitionsLost, "go on: the group is sharing its partitions out anew"),
    KafkaError._ASSIGNMENT_LOST: (PartitionsLost, "go on: the group has moved on"),
    KafkaError.FENCED_INSTANCE_ID: (Fenced, "another process runs under the same instance name"),
    KafkaError._FATAL: (Fenced, "it can do no more: make a new one, under a name that no other process uses"),
    KafkaError._FENCED: (Fenced, _FENCED_BY),
    KafkaError.PRODUCER_FENCED: (Fenced, _FENCED_BY),
    KafkaError.INVALID_PRODUCER_EPOCH: (Fenced, _FENCED_BY),
    KafkaError._INVALID_ARG: (BadSetting, ""),
}


def known(error: KafkaError, doing: str) -> MillstreamError:
    """Kafka's error as one of ours, with what was being done when it came."""
    kind, advice = _KNOWN.get(error.code(), (Refused, ""))
    if error.txn_requires_abort():
        kind = TransactionAborted
    elif error.fatal() and not issubclass(kind, BadSetting):
        kind = Fenced
    detail = f"{doing}: {error.str()}" + (f"; {advice}" if advice else "")
    return kind(detail, code=error.name(), retriable=error.retriable())


def translated(exception: KafkaException, doing: str) -> MillstreamError:
    """The same, of the exception that carries it."""
    error = exception.args[0] if exception.args else None
    if isinstance(error, KafkaError):
        return known(error, doing)
    return Refused(f"{doing}: {exception}")
