"""A connector's config over its worker's."""

from millstream.pipelines.connect.settings import layered, sink_group

JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {"value.converter": JSON, "value.converter.schemas.enable": "false", "tasks.max": "2"}


def test_a_config_says_what_it_says_and_the_worker_the_rest() -> None:
    assert layered(WORKER, {"name": "a", "tasks.max": "5"}) == {**WORKER, "name": "a", "tasks.max": "5"}


def test_a_converter_that_a_config_names_is_told_nothing_by_the_worker() -> None:
    """As in Connect, where it has schemas unless its own config says otherwise."""
    assert layered(WORKER, {"value.converter": JSON}) == {"value.converter": JSON, "tasks.max": "2"}
    assert layered(WORKER, {"key.converter": JSON}) == {**WORKER, "key.converter": JSON}
    own = {"value.converter": JSON, "value.converter.schemas.enable": "true"}
    assert layered(WORKER, own) == {**own, "tasks.max": "2"}


def test_a_sink_s_group_has_its_name_unless_it_says_otherwise() -> None:
    assert sink_group({"name": "a"}) == "connect-a"
    assert sink_group({"name": "a", "consumer.override.group.id": " mine "}) == "mine"
