"""What is handed to librdkafka, and what is refused before it is."""

import logging

import pytest
from confluent_kafka import Producer as Wire

from millstream import BadSetting, Consumer, Delivery, Producer
from millstream.client.application.settings import Once, bootstrap_or_default, made, merged


def test_the_brokers_come_from_the_argument_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLSTREAM_BOOTSTRAP", raising=False)
    assert bootstrap_or_default(None) == "127.0.0.1:9092"
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP", "kafka:9092")
    assert bootstrap_or_default(None) == "kafka:9092"
    assert bootstrap_or_default("other:1") == "other:1"


def test_an_own_setting_beats_a_preference_and_no_promise() -> None:
    chosen = merged(None, {"linger.ms": 5, "acks": 1}, {"retries": 0}, {"linger.ms": 50})
    assert (chosen["linger.ms"], chosen["acks"], chosen["retries"]) == (50, 1, 0)


@pytest.mark.parametrize("name", ["acks", "request.required.acks"])
def test_a_setting_that_contradicts_the_promise_is_refused_under_either_of_its_names(name: str) -> None:
    with pytest.raises(BadSetting, match="acks=1 contradicts what was chosen, which needs acks='all'"):
        Producer(delivery=Delivery.AT_LEAST_ONCE, config={name: 1})


def test_a_setting_that_repeats_the_promise_in_other_words_is_taken() -> None:
    assert merged(None, {}, {"acks": "all", "enable.idempotence": True}, {"acks": -1, "enable.idempotence": "true"})


def test_a_setting_nobody_knows_is_named() -> None:
    with pytest.raises(BadSetting, match=r"there is no setting 'lingr\.ms'"):
        Producer(config={"lingr.ms": 5})


def test_a_setting_of_javas_is_answered_with_what_stands_for_it() -> None:
    with pytest.raises(BadSetting, match=r"'fetch.max.wait.ms': set fetch.wait.max.ms"):
        Consumer("orders", group="g", config={"fetch.max.wait.ms": 5})


def test_a_value_that_cannot_be_is_named() -> None:
    with pytest.raises(BadSetting, match=r"security\.protocol"):
        made(Wire, {"security.protocol": "soon"})


def test_brokers_given_twice_are_refused() -> None:
    with pytest.raises(BadSetting, match="given twice"):
        Producer("a:1", config={"bootstrap.servers": "b:1"})


def test_a_transactional_id_goes_with_no_other_promise() -> None:
    with pytest.raises(BadSetting, match="exactly_once"):
        Producer(transactional_id="me", delivery="at_least_once")


def test_what_librdkafka_says_again_and_again_is_logged_once() -> None:
    once = Once()

    def said(text: str) -> logging.LogRecord:
        return logging.LogRecord("x", logging.WARNING, "", 0, text, None, None)

    assert once.filter(said("refused (after 1ms in state CONNECT)"))
    assert not once.filter(said("refused (after 2ms in state CONNECT)"))
    assert once.filter(said("another"))
