"""Kafka's errors as an application meets them."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from millstream.client.application import errors
from millstream.client.application.errors import known, translated


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, errors.UnknownTopic),
        (KafkaError.TOPIC_ALREADY_EXISTS, errors.TopicExists),
        (KafkaError._TRANSPORT, errors.Unreachable),
        (KafkaError.ILLEGAL_GENERATION, errors.PartitionsLost),
        (KafkaError.NON_EMPTY_GROUP, errors.GroupInUse),
        (KafkaError.POLICY_VIOLATION, errors.Refused),
    ],
)
def test_a_code_has_its_exception_and_its_name(code: int, kind: type[errors.MillstreamError]) -> None:
    error = known(KafkaError(code, "because"), "doing this")
    assert type(error) is kind
    assert str(error).startswith("doing this: because")
    assert error.code == KafkaError(code).name()


def test_an_error_that_needs_an_abort_is_an_aborted_transaction_whatever_its_code() -> None:
    error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "x", txn_requires_abort=True)
    assert isinstance(known(error, "sending"), errors.TransactionAborted)


def test_a_fatal_error_means_that_the_client_can_do_no_more() -> None:
    error = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "x", fatal=True)
    assert isinstance(known(error, "sending"), errors.Fenced)


def test_an_exception_without_an_error_is_still_told() -> None:
    assert "odd" in str(translated(KafkaException("odd"), "sending"))
