"""Connect's REST API over a real worker, a real broker and real processes; what those do is played by a script."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.pipelines.connect.workers import ConnectProcess, scripted_worker
from tests.pipelines.records import records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

SOURCE = "tests.pipelines.connect.scripted.ScriptedSource"
SINK = "tests.pipelines.connect.scripted.ScriptedSink"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rest")


@pytest.fixture(scope="module")
def api(broker: BrokerProcess, folder: Path) -> Iterator[ConnectProcess]:
    with scripted_worker(broker.address, folder, "rest") as running:
        yield running


def config(does: str = "works", kind: str = SOURCE, **more: Any) -> dict[str, Any]:
    return {"connector.class": kind, "does": does, **more}


def made(api: ConnectProcess, name: str, given: dict[str, Any], **more: str) -> None:
    answer = api.ask("POST", "/connectors", {"name": name, "config": given, **more})
    assert answer.status == 201, answer


def job_of(folder: Path, name: str) -> dict[str, Any]:
    """What the connector's process was last told."""
    [generation] = (path for path in (folder / "data" / "connectors" / name).iterdir() if path.is_dir())
    found: dict[str, Any] = json.loads((generation / "job.json").read_text())
    return found


NAMED = {"name": "a", "config": config()}

#: Words and all as Apache Kafka's own worker says them.
REFUSALS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/nowhere", None, 404, "HTTP 404 Not Found"),
    ("GET", "/connectors/none/nowhere", None, 404, "HTTP 404 Not Found"),
    ("POST", "/health", None, 405, "HTTP 405 Method Not Allowed"),
    ("DELETE", "/connectors", None, 405, "HTTP 405 Method Not Allowed"),
    ("GET", "/connectors/none", None, 404, "Connector none not found"),
    ("DELETE", "/connectors/none", None, 404, "Connector none not found"),
    ("GET", "/connectors/none/config", None, 404, "Connector none not found"),
    ("PATCH", "/connectors/none/config", {"a": "b"}, 404, "Connector none not found"),
    ("GET", "/connectors/none/status", None, 404, "No status found for connector none"),
    ("GET", "/connectors/none/tasks", None, 404, "Connector none not found"),
    ("GET", "/connectors/none/tasks/0/status", None, 404, "No status found for task none-0"),
    ("GET", "/connectors/none/tasks/x/status", None, 404, "HTTP 404 Not Found"),
    ("POST", "/connectors/none/tasks/0/restart", None, 404, "Unknown connector: none"),
    ("POST", "/connectors/none/restart", None, 404, "Unknown connector: none"),
    ("POST", "/connectors/none/restart?includeTasks=true", None, 404, "Unknown connector: none"),
    ("PUT", "/connectors/none/pause", None, 404, "Unknown connector none"),
    ("PUT", "/connectors/none/resume", None, 404, "Unknown connector none"),
    ("PUT", "/connectors/none/stop", None, 404, "Unknown connector none"),
    ("GET", "/connectors/none/offsets", None, 404, "Connector none not found"),
    ("DELETE", "/connectors/none/offsets", None, 404, "Connector none not found"),
    ("PATCH", "/connectors/none/offsets", {"offsets": [{"partition": {}}]}, 404, "Connector none not found"),
    (
        "PATCH",
        "/connectors/none/offsets",
        {"offsets": []},
        400,
        "Partitions / offsets need to be provided for an alter offsets request",
    ),
    (
        "POST",
        "/connectors",
        {"name": "x", "config": {}},
        400,
        "Connector config {name=x} contains no connector type",
    ),
    (
        "POST",
        "/connectors",
        {"name": "x", "config": {"name": "y"}},
        400,
        "Connector name configuration (y) doesn't match connector name in the URL (x)",
    ),
    (
        "PUT",
        "/connector-plugins/ScriptedSource/config/validate",
        {"connector.class": SINK},
        400,
        f"Included connector type {SINK} does not match request type ScriptedSource",
    ),
    ("GET", "/connector-plugins/Nope/config", None, 404, "Unknown plugin Nope."),
    ("GET", "/admin/loggers/none", None, 404, "Logger none not found."),
    ("PUT", "/admin/loggers/none", {"level": "LOUD"}, 404, "invalid log level 'LOUD'."),
    ("PUT", "/admin/loggers/none", {}, 400, "Desired 'level' parameter was not specified in request."),
]
#: What it refuses in other words, having tripped over it.
OWN_REFUSALS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/connectors/none/tasks-config", None, 404, "Connector none not found"),
    ("POST", "/connectors", '{"name": "x", ', 500, "The request's body is not JSON: Expecting property name"),
    ("POST", "/connectors", "", 500, "The request's body is not JSON: "),
    ("POST", "/connectors", "[]", 500, "The request's body must be a JSON object"),
    ("PUT", "/connectors/x/config", "{", 500, "The request's body is not JSON: "),
    ("PATCH", "/connectors/x/config", "{", 500, "The request's body is not JSON: "),
    ("PATCH", "/connectors/x/offsets", "{", 500, "The request's body is not JSON: "),
    ("PATCH", "/connectors/x/offsets", {"offsets": 5}, 500, "The offsets must be a list of partitions"),
    ("PATCH", "/connectors/x/offsets", {"x": 5}, 500, "Unrecognized field 'x'"),
    ("PUT", "/admin/loggers/x", "{", 500, "The request's body is not JSON: "),
    ("POST", "/connectors", {"name": "x"}, 500, "The connector's config must be given as an object under 'config'"),
    ("POST", "/connectors", {"name": "x", "confg": {}}, 500, "Unrecognized field 'confg'"),
    ("POST", "/connectors", {"name": "x", "config": {"a": {}}}, 500, "The value of 'a' must be text, and is an object"),
    ("POST", "/connectors", {**NAMED, "initial_state": "FLYING"}, 500, "The initial state 'FLYING' is none of RUNNING"),
    ("POST", "/connectors", {"name": "x", "config": {"a": None}}, 400, "Connector config {name=x"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), [*REFUSALS, *OWN_REFUSALS])
def test_what_cannot_be_is_refused_in_connect_s_words(
    api: ConnectProcess, method: str, path: str, body: Any, status: int, message: str
) -> None:
    answer = api.ask(method, path, body)
    assert answer.status == answer.document["error_code"] == status
    assert answer.document["message"].startswith(message)
    assert set(answer.document) == {"error_code", "message"}


def test_who_serves_and_whether_it_is_well(api: ConnectProcess) -> None:
    root = api.get("/")
    assert set(root) == {"version", "commit", "kafka_cluster_id"} and root["kafka_cluster_id"]
    assert api.get("/health") == {
        "status": "healthy",
        "message": "Worker has completed startup and is ready to handle requests.",
    }
    assert api.ask("HEAD", "/connectors").status == 200
    assert "POST" in api.ask("OPTIONS", "/connectors").headers["Allow"]
    for wrong in ("text/plain", ""):
        assert api.ask("POST", "/connectors", json.dumps(NAMED), **{"Content-Type": wrong}).status == 415
    assert api.ask("GET", "/connectors", Accept="text/html").status == 406
    assert api.ask("GET", "/connectors", Accept="text/html, application/*;q=0.9").status == 200
    assert api.ask("GET", "/metrics", Accept="text/plain").status == 200


def test_a_connector_is_made_shown_and_deleted(api: ConnectProcess) -> None:
    given = config(tasks=2, flag=True) | {"tasks.max": 3}
    answer = api.ask("POST", "/connectors", {"name": "a b/c", "config": given})
    own = {"connector.class": SOURCE, "does": "works", "tasks": "2", "tasks.max": "3", "flag": "true", "name": "a b/c"}
    assert answer.status == 201
    assert answer.document == {"name": "a b/c", "config": own, "tasks": [], "type": "source"}
    assert answer.headers["Location"] == f"{api.url}/connectors/a%20b%2Fc"
    proxied = api.ask("PUT", "/connectors/proxied/config", config(), Host="connect.example:80")
    assert proxied.headers["Location"] == "http://connect.example:80/connectors/proxied"
    assert api.ask("DELETE", "/connectors/proxied").status == 204
    again = api.ask("POST", "/connectors", {"name": "a b/c", "config": given})
    assert (again.status, again.document["message"]) == (409, "Connector a b/c already exists")
    place = "/connectors/a%20b%2Fc"
    api.wait_for(lambda: len(api.get(f"{place}/tasks")) == 2)
    info = {**answer.document, "tasks": [{"connector": "a b/c", "task": number} for number in (0, 1)]}
    one = {"state": "RUNNING", "worker_id": api.url.removeprefix("http://"), "version": "7.1"}
    tasks = [{"id": number, **one} for number in (0, 1)]
    status = {"name": "a b/c", "connector": one, "tasks": tasks, "type": "source"}
    task = {**own, "task.class": SOURCE}
    assert api.get(place) == info
    assert api.get(f"{place}/config") == own
    assert api.get(f"{place}/status") == status
    assert api.get(f"{place}/tasks/1/status") == {"id": 1, **one}
    assert api.ask("GET", f"{place}/tasks/2/status").document["message"] == "No status found for task a b/c-2"
    assert api.ask("POST", f"{place}/tasks/2/restart").document["message"] == "Unknown task: a b/c-2"
    found = api.get(f"{place}/tasks")
    assert found == [{"id": {"connector": "a b/c", "task": number}, "config": task} for number in (0, 1)]
    assert api.get(f"{place}/tasks-config") == {"a b/c-0": task, "a b/c-1": task}
    assert "a b/c" in api.get("/connectors") and api.get("/connectors/") == api.get("/connectors")
    assert api.get("/connectors?expand=status&expand=info&expand=odd")["a b/c"] == {"status": status, "info": info}
    assert api.get("/connectors?expand=info")["a b/c"] == {"info": info}
    assert api.ask("DELETE", place).status == 204
    assert api.ask("GET", f"{place}/status").status == 404
    assert "a b/c" not in api.get("/connectors")


def test_a_config_is_put_patched_and_refused_with_all_that_is_wrong(api: ConnectProcess) -> None:
    place = "/connectors/put/config"
    assert api.ask("PUT", place, config(extra="1")).status == 201
    changed = api.ask("PUT", place, config(other="2"))
    assert (changed.status, changed.document["config"]) == (200, {**config(other="2"), "name": "put"})
    patched = api.ask("PATCH", place, {"other": None, "more": 5})
    assert (patched.status, patched.document["config"]) == (200, {**config(more="5"), "name": "put"})
    null = api.ask("PUT", place, config(other=None))
    assert null.status == 400 and "other: Null value can not be supplied" in null.document["message"]
    wrong = api.ask("PUT", place, {"connector.class": SOURCE, "tasks.max": "many"})
    lines = wrong.document["message"].splitlines()
    assert wrong.status == 400
    assert lines[0] == "Connector configuration is invalid and contains the following 2 error(s):"
    assert "tasks.max" in lines[1] and "does" in lines[2]
    assert lines[3].startswith("You can also find the above list of errors at the endpoint `/connector-plugins/{conn")
    assert "may not be 13" in api.ask("PATCH", place, {"tasks": "13"}).document["message"]
    nothing = api.ask("PUT", place, {"connector.class": SINK, "does": "works"}).document["message"].splitlines()
    assert nothing[0].endswith("the following 1 error(s):")
    assert nothing[1] == "Must configure one of topics or topics.regex" and nothing[2].startswith("You can also")
    renamed = api.ask("PATCH", place, {"name": "other"})
    words = "Connector name configuration (other) doesn't match connector name in the URL (put)"
    assert (renamed.status, renamed.document["message"]) == (400, words)
    assert api.get(place) == {**config(more="5"), "name": "put"}
    assert api.ask("DELETE", "/connectors/put").status == 204


def test_a_changed_config_is_what_the_process_then_runs(api: ConnectProcess, folder: Path) -> None:
    made(api, "changing", config())
    api.wait_for_state("changing", "RUNNING", "RUNNING")
    before = job_of(folder, "changing")
    assert before["config"]["value.converter"].endswith("StringConverter"), "the worker's own lies beneath"
    assert api.ask("PATCH", "/connectors/changing/config", {"tasks": 3}).status == 200
    api.wait_for_state("changing", "RUNNING", "RUNNING", "RUNNING", "RUNNING")
    after = job_of(folder, "changing")
    assert after["generation"] == before["generation"] and after["config"]["tasks"] == "3"
    assert api.ask("DELETE", "/connectors/changing").status == 204


def test_a_connector_is_paused_resumed_and_stopped(api: ConnectProcess) -> None:
    made(api, "states", config())
    api.wait_for_state("states", "RUNNING", "RUNNING")
    assert api.ask("PUT", "/connectors/states/pause").status == 202
    api.wait_for_state("states", "PAUSED", "PAUSED")
    paused_at = api.figure("batch_number", "states")
    assert api.ask("PUT", "/connectors/states/pause").status == 202
    assert api.ask("PUT", "/connectors/states/resume").status == 202
    api.wait_for(lambda: api.figure("batch_number", "states") > paused_at)
    assert api.ask("PUT", "/connectors/states/stop").status == 204
    api.wait_for_state("states", "STOPPED")
    assert api.get("/connectors/states/tasks") == []
    assert api.ask("PUT", "/connectors/states/resume").status == 202
    api.wait_for_state("states", "RUNNING", "RUNNING")
    assert api.ask("DELETE", "/connectors/states").status == 204
    said = [line.removeprefix("states: ") for line in api.said.splitlines() if line.startswith("states: ")]
    starts = ["starting Spark", "running with 1 task"]
    assert said == ["created", *starts, "paused", "resumed", *starts, "stopped", "resumed", *starts, "deleted"]


@pytest.mark.parametrize(
    ("initial", "state", "tasks"),
    [("RUNNING", "RUNNING", ["RUNNING"]), ("paused", "PAUSED", []), ("STOPPED", "STOPPED", [])],
)
def test_a_connector_begins_as_it_is_wanted(api: ConnectProcess, initial: str, state: str, tasks: list[str]) -> None:
    name = f"initially-{initial}"
    made(api, name, config(), initial_state=initial)
    api.wait_for_state(name, state, *tasks)
    assert api.ask("DELETE", f"/connectors/{name}").status == 204


def test_a_restart_is_of_what_it_means(api: ConnectProcess) -> None:
    made(api, "again", config())
    api.wait_for_state("again", "RUNNING", "RUNNING")
    place = "/connectors/again/restart"
    untouched = api.ask("POST", f"{place}?includeTasks=true&onlyFailed=true")
    assert (untouched.status, untouched.document["connector"]["state"]) == (202, "RUNNING")
    assert api.figure("starts_total", "again") == 1
    for number, path in enumerate((place, f"{place}?includeTasks=true", "/connectors/again/tasks/0/restart"), 2):
        answer = api.ask("POST", path)
        if "includeTasks" in path:
            assert answer.status == 202 and answer.document["tasks"][0]["state"] == "RESTARTING"
        else:
            assert answer.status == 204
        api.wait_for(lambda number=number: api.figure("starts_total", "again") == number)  # type: ignore[misc]
        api.wait_for_state("again", "RUNNING", "RUNNING")
    assert api.figure("falls_total", "again") == 0
    assert api.ask("DELETE", "/connectors/again").status == 204


def test_what_falls_is_started_again_and_what_is_broken_waits_for_somebody(api: ConnectProcess) -> None:
    made(api, "falling", config("fails"))
    api.wait_for(lambda: api.figure("falls_total", "falling") >= 3)
    api.wait_for_state("falling", "RESTARTING")
    assert api.get("/connectors/falling/status")["connector"]["trace"] == "Traceback: away"
    assert api.ask("PATCH", "/connectors/falling/config", {"does": "works"}).status == 200
    api.wait_for_state("falling", "RUNNING", "RUNNING")
    assert api.ask("DELETE", "/connectors/falling").status == 204
    made(api, "broken", config("breaks"))
    api.wait_for_state("broken", "RUNNING", "FAILED")
    assert api.get("/connectors/broken/tasks/0/status")["trace"] == "Traceback: table"
    starts = api.figure("starts_total", "broken")
    answer = api.ask("POST", "/connectors/broken/restart?includeTasks=true&onlyFailed=true")
    assert (answer.document["connector"]["state"], answer.document["tasks"][0]["state"]) == ("RUNNING", "RESTARTING")
    api.wait_for(lambda: api.figure("starts_total", "broken") == starts + 1)
    api.wait_for_state("broken", "RUNNING", "FAILED")
    assert api.ask("PUT", "/connectors/broken/pause").status == 202
    api.wait_for_state("broken", "PAUSED", "PAUSED")
    assert api.ask("DELETE", "/connectors/broken").status == 204


def test_a_process_that_does_not_begin_can_be_called_off(api: ConnectProcess) -> None:
    made(api, "hanging", config("hangs"))
    api.wait_for(lambda: api.figure("starts_total", "hanging") == 1)
    assert api.states("hanging") == ("UNASSIGNED", [])
    assert api.ask("PUT", "/connectors/hanging/stop").status == 204
    api.wait_for_state("hanging", "STOPPED")
    assert api.ask("DELETE", "/connectors/hanging").status == 204


def test_the_topics_of_a_connector_are_told_and_forgotten(api: ConnectProcess) -> None:
    assert api.get("/connectors/none/topics") == {"none": {"topics": []}}
    assert api.ask("PUT", "/connectors/none/topics/reset").status == 202
    made(api, "talking", config())
    api.wait_for(lambda: api.get("/connectors/talking/topics") == {"talking": {"topics": ["lines"]}})
    assert api.ask("PUT", "/connectors/talking/pause").status == 202
    api.wait_for_state("talking", "PAUSED", "PAUSED")
    assert api.ask("PUT", "/connectors/talking/topics/reset").status == 202
    assert api.get("/connectors/talking/topics") == {"talking": {"topics": []}}
    assert api.ask("DELETE", "/connectors/talking").status == 204


def test_a_source_s_offsets_are_shown_altered_and_reset_once_it_is_stopped(api: ConnectProcess, folder: Path) -> None:
    made(api, "far", config())
    api.wait_for_state("far", "RUNNING", "RUNNING")
    first = job_of(folder, "far")
    assert first["offsets"] == [] and first["offsets_topic"] == "rest-offsets"
    place, there = "/connectors/far/offsets", {"partition": {"file": "x"}, "offset": {"line": 5}}
    assert api.get(place) == {"offsets": []}
    refused = api.ask("PATCH", place, {"offsets": [there]})
    assert refused.status == 400
    assert refused.document["message"] == (
        "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
        "specified connector by issuing a 'PUT' request to the '/connectors/far/stop' endpoint"
    )
    assert api.ask("DELETE", place).document == refused.document
    assert api.ask("PUT", "/connectors/far/stop").status == 204
    assert api.ask("PATCH", place, {"offsets": [{"offset": {}}]}).status == 400
    assert api.ask("PATCH", place, {"offsets": [{"partition": {}, "offset": 5}]}).status == 500
    nowhere = api.ask("PATCH", place, {"offsets": [there, {"partition": {"file": "y"}, "offset": {"line": -1}}]})
    words = 'The offset for the partition {"file":"y"} cannot be set: lines are counted from 0'
    assert (nowhere.status, nowhere.document["message"]) == (400, words)
    assert api.get(place) == {"offsets": []}
    altered = api.ask("PATCH", place, {"offsets": [there, {"partition": {"file": "y"}, "offset": None}]})
    assert altered.document == {"message": "The offsets for this connector have been altered successfully"}
    assert api.get(place) == {"offsets": [there]}
    assert api.ask("PUT", "/connectors/far/resume").status == 202
    api.wait_for_state("far", "RUNNING", "RUNNING")
    second = job_of(folder, "far")
    assert second["generation"] > first["generation"] and second["offsets"] == [there]
    assert api.ask("PUT", "/connectors/far/stop").status == 204
    reset = api.ask("DELETE", place)
    assert reset.document == {"message": "The offsets for this connector have been reset successfully"}
    assert api.get(place) == {"offsets": []}
    assert api.ask("DELETE", "/connectors/far").status == 204


def _note_progress(folder: Path, name: str, offsets: dict[str, dict[str, int]]) -> None:
    """A batch as Spark notes it when it has ended; the group was not told of it yet."""
    [generation] = (path for path in (folder / "data" / "connectors" / name).iterdir() if path.is_dir())
    for log, lines in (("offsets", ["v1", "{}", json.dumps(offsets)]), ("commits", ["v1", "{}"])):
        file = generation / "checkpoint" / log / "0"
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(lines))


def test_a_sink_s_offsets_are_its_group_s(
    api: ConnectProcess, topics: Topics, broker: BrokerProcess, folder: Path
) -> None:
    topic = topics.new(2)
    topics.put(topic, [b"x"] * 9)
    made(api, "into", config(kind=SINK, topics=topic))
    place = "/connectors/into/offsets"
    assert api.get(place) == {"offsets": []}
    assert api.ask("PUT", "/connectors/into/stop").status == 204

    def at(offset: Any, **partition: Any) -> dict[str, Any]:
        return {"offsets": [{"partition": partition or None, "offset": offset}]}

    zero = {"kafka_topic": topic, "kafka_partition": "0"}
    for wrong, message in (
        (at({}), "The partition for a sink connector offset cannot be null or missing"),
        (
            at({}, kafka_topic=topic),
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'",
        ),
        (at({}, kafka_topic=None, kafka_partition=0), "Kafka topic names must be valid strings and may not be null"),
        (
            at({}, kafka_topic=topic, kafka_partition=None),
            "Kafka partitions must be valid numbers and may not be null",
        ),
        (
            at({}, kafka_topic=topic, kafka_partition="x"),
            "Failed to parse the following Kafka partition value in the provided offsets: 'x'. Partition values for "
            "sink connectors need to be integers.",
        ),
        (
            at({"x": 1}, **zero),
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
        ),
        (
            at({"kafka_offset": 1.5}, **zero),
            "Failed to parse the following Kafka offset value in the provided offsets: '1.5'. Offset values for sink "
            "connectors need to be integers.",
        ),
    ):
        answer = api.ask("PATCH", place, wrong)
        assert (answer.status, answer.document["message"]) == (400, message)
    _note_progress(folder, "into", {topic: {"0": 3, "1": 2}})
    assert api.ask("PATCH", place, at({"kafka_offset": "4"}, **zero)).status == 200
    one = {"kafka_topic": topic, "kafka_partition": 1}
    shown = api.get(place)["offsets"]
    assert shown[1:] == [{"partition": one, "offset": {"kafka_offset": 2}}], "it stays where its own progress is"
    assert api.ask("PATCH", place, at(None, **one)).status == 200
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    assert api.get(place) == {"offsets": [{"partition": partition, "offset": {"kafka_offset": 4}}]}
    admin = AdminClient({"bootstrap.servers": broker.address})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("connect-into")])
    assert [each.offset for each in asked["connect-into"].result().topic_partitions] == [4]
    assert api.ask("PATCH", place, at(None, **zero)).status == 200
    assert api.get(place) == {"offsets": []}
    assert api.ask("DELETE", place).status == 200
    assert api.ask("DELETE", place).status == 200, "a group that is not there is reset"
    assert api.ask("DELETE", "/connectors/into").status == 204


def test_a_name_used_again_has_progress_of_its_own_and_the_offsets_that_were(api: ConnectProcess, folder: Path) -> None:
    made(api, "twice", config(), initial_state="STOPPED")
    there = {"partition": {"file": "x"}, "offset": {"line": 5}}
    assert api.ask("PATCH", "/connectors/twice/offsets", {"offsets": [there]}).status == 200
    assert api.ask("PUT", "/connectors/twice/resume").status == 202
    api.wait_for_state("twice", "RUNNING", "RUNNING")
    first = job_of(folder, "twice")
    assert api.ask("DELETE", "/connectors/twice").status == 204
    made(api, "twice", config())
    api.wait_for_state("twice", "RUNNING", "RUNNING")
    second = job_of(folder, "twice")
    assert second["generation"] > first["generation"] and second["offsets"] == [there]
    assert api.ask("DELETE", "/connectors/twice").status == 204


def test_plugins_are_listed_described_and_validated(api: ConnectProcess) -> None:
    listed = api.get("/connector-plugins")
    assert {plugin["type"] for plugin in listed} == {"source", "sink"}
    every = api.get("/connector-plugins?connectorsOnly=false")
    assert {"class", "type", "version"} == set(every[0])
    assert {plugin["type"] for plugin in every} >= {"converter", "header_converter", "transformation", "predicate"}
    options = {option["name"]: option for option in api.get(f"/connector-plugins/{SOURCE}/config")}
    assert options["does"]["required"] and options["tasks.max"]["default_value"] == "1"
    place = f"/connector-plugins/{SOURCE}/config/validate"
    answer = api.ask("PUT", place, {**config("flies"), "name": "x"})
    assert answer.status == 200 and answer.document["error_count"] == 1
    assert set(answer.document) == {"name", "error_count", "groups", "configs"}
    wrong = [each["value"] for each in answer.document["configs"] if each["value"]["errors"]]
    assert [each["name"] for each in wrong] == ["does"]
    assert api.ask("PUT", place, {**config(), "name": "x"}).document["error_count"] == 0
    assert api.ask("PUT", "/connector-plugins/Nope/config/validate", {}).status == 400


def test_loggers_are_shown_and_set(api: ConnectProcess) -> None:
    name = "millstream.pipelines.connect"
    assert set(api.get("/admin/loggers")["root"]) == {"level", "last_modified"}
    changed = api.ask("PUT", f"/admin/loggers/{name}", {"level": "debug"})
    assert changed.status == 200 and name in changed.document
    assert api.get(f"/admin/loggers/{name}")["level"] == "DEBUG"
    assert api.get(f"/admin/loggers/{name}")["last_modified"] > 0
    assert api.ask("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "ERROR"}).status == 204
    assert api.get("/admin/loggers")[name]["level"] == "ERROR"
    assert api.ask("PUT", f"/admin/loggers/{name}?scope=odd", {"level": "WARN"}).status == 200


def test_the_topics_hold_what_connect_s_own_workers_would_read(api: ConnectProcess, broker: BrokerProcess) -> None:
    made(api, "kept", config(), initial_state="RUNNING")
    api.wait_for_state("kept", "RUNNING", "RUNNING")
    api.wait_for(lambda: len(api.get("/connectors/kept/tasks")) == 1)
    assert api.ask("PUT", "/connectors/kept/stop").status == 204
    own = {**config(), "name": "kept"}
    configs = [
        each for each in records_of(broker.address, "rest-configs") if (each.key or b"").endswith((b"kept", b"kept-0"))
    ]
    assert [(each.key, json.loads(each.value or b"null")) for each in configs] == [
        (b"target-state-kept", {"state": "STARTED", "state.v2": "STARTED"}),
        (b"connector-kept", {"properties": own}),
        (b"task-kept-0", {"properties": {**own, "task.class": SOURCE}}),
        (b"commit-kept", {"tasks": 1}),
        (b"commit-kept", {"tasks": 0}),
        (b"target-state-kept", {"state": "PAUSED", "state.v2": "STOPPED"}),
    ]
    api.wait_for_state("kept", "STOPPED")

    def last() -> dict[bytes, Any]:
        return {
            each.key or b"": each.value and json.loads(each.value) for each in records_of(broker.address, "rest-status")
        }

    api.wait_for(lambda: (last().get(b"status-connector-kept") or {}).get("state") == "STOPPED")
    kept = last()
    worker_id = api.url.removeprefix("http://")
    status = kept[b"status-connector-kept"]
    assert status == {**status, "trace": None, "worker_id": worker_id, "version": "7.1"} and status["generation"] > 0
    assert kept[b"status-task-kept-0"] is None
    assert kept[b"status-topic-lines:connector-kept"]["topic"]["connector"] == "kept"
    assert api.ask("DELETE", "/connectors/kept").status == 204
