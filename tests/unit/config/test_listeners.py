"""Listeners as Kafka writes them."""

import pytest

from millstream.config.listeners import Listener, parse_listener, parse_protocol_map


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://localhost:9092", Listener("PLAINTEXT", "localhost", 9092)),
        ("plaintext://:0", Listener("PLAINTEXT", "", 0)),
        ("INTERNAL://0.0.0.0:65535", Listener("INTERNAL", "0.0.0.0", 65535)),
        ("SSL://[::1]:9093", Listener("SSL", "::1", 9093)),
        ("PLAIN-TEXT_1://broker-1.example:1", Listener("PLAIN-TEXT_1", "broker-1.example", 1)),
    ],
)
def test_a_listener_has_a_name_a_host_and_a_port(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener
    assert parse_listener(str(listener)) == listener


@pytest.mark.parametrize(
    "text", ["", "localhost:9092", "A://host", "A://host:", "A://host:65536", "A://::1:9092", "A:h:1"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME://host:port"):
        parse_listener(text)


def test_listener_names_are_mapped_to_protocols() -> None:
    assert parse_protocol_map(("internal:plaintext", "OUT:SASL_SSL")) == {"INTERNAL": "PLAINTEXT", "OUT": "SASL_SSL"}
    for wrong in ("INTERNAL", "INTERNAL:TLS", ":SSL"):
        with pytest.raises(ValueError, match="NAME:PROTOCOL"):
            parse_protocol_map((wrong,))
