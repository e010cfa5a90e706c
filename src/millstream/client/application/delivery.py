"""How often a record may arrive: one choice that sets everything it takes, on the side it is given to."""

from __future__ import annotations

from enum import Enum
from typing import Any

from confluent_kafka import libversion

from millstream.client.application.errors import BadSetting


class Delivery(Enum):
    """What is promised for each record when something fails; its string will do wherever one is asked for.

    AT_MOST_ONCE    never twice, perhaps lost: sent without a retry, committed before it is handed out.
    AT_LEAST_ONCE   never lost, perhaps twice: sent until every in-sync replica has it, committed once processed.
    EXACTLY_ONCE    as if nothing had failed: sent in transactions, read committed, the offsets in the transaction.
    """

    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"

    @classmethod
    def of(cls, choice: Delivery | str) -> Delivery:
        """The choice, from itself or from its name in either case, with hyphens or underscores."""
        if isinstance(choice, Delivery):
            return choice
        try:
            return cls(choice.lower().replace("-", "_"))
        except ValueError:
            choices = ", ".join(repr(one.value) for one in cls)
            raise BadSetting(f"delivery={choice!r} is not one of {choices}") from None


#: From 2.11 on, librdkafka forgets its brokers when none answers, and sending offsets to a transaction may then wait
#: for one of the forgotten for ever (its issues 5456, 5511). The addresses it was given first are tried in any case.
_KEEPS_BROKERS = {"metadata.recovery.strategy": "none"} if libversion()[1] >= 0x020B0000 else {}
#: What each choice fixes for a producer; a setting of one's own that contradicts it is refused.
PRODUCER_PROMISES: dict[Delivery, dict[str, Any]] = {
    Delivery.AT_MOST_ONCE: {"enable.idempotence": False, "retries": 0},
    Delivery.AT_LEAST_ONCE: {"acks": "all"},
    Delivery.EXACTLY_ONCE: {"acks": "all", "enable.idempotence": True},
}
#: What each choice prefers for a producer, and leaves to be set otherwise.
PRODUCER_PREFERENCES: dict[Delivery, dict[str, Any]] = {
    Delivery.AT_MOST_ONCE: {"acks": 1},
    Delivery.AT_LEAST_ONCE: {"enable.idempotence": True},
    Delivery.EXACTLY_ONCE: _KEEPS_BROKERS,
}
#: What each choice fixes for a consumer.  Offsets are stored by us, at the right moment, and never by themselves.
CONSUMER_PROMISES: dict[Delivery, dict[str, Any]] = {
    Delivery.AT_MOST_ONCE: {"enable.auto.commit": False, "enable.auto.offset.store": False},
    Delivery.AT_LEAST_ONCE: {"enable.auto.commit": True, "enable.auto.offset.store": False},
    Delivery.EXACTLY_ONCE: {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
    },
}
CONSUMER_PREFERENCES: dict[Delivery, dict[str, Any]] = {
    Delivery.AT_MOST_ONCE: {},
    Delivery.AT_LEAST_ONCE: {"auto.commit.interval.ms": 1_000},
    Delivery.EXACTLY_ONCE: {},
}
