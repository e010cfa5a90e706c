"""Configs, states and offsets as Connect's own workers write and read them."""

import pytest

from millstream.pipelines.connect.runtime import configs, statuses
from millstream.pipelines.connect.runtime.configs import Configs
from millstream.pipelines.connect.runtime.entries import BadEntry, Entry
from millstream.pipelines.connect.runtime.offsets import Offsets
from millstream.pipelines.connect.runtime.states import State, Target
from millstream.pipelines.connect.runtime.statuses import Status, Statuses

CONFIG = {"name": "a-b", "connector.class": "FileSource"}


def test_configs_are_written_as_connect_writes_them() -> None:
    assert configs.connector_entries("a-b", CONFIG, Target.STOPPED) == [
        Entry(b"target-state-a-b", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        Entry(b"connector-a-b", b'{"properties":{"name":"a-b","connector.class":"FileSource"}}'),
    ]
    assert configs.task_entries("a-b", [{"x": "1"}, {"x": "ü"}]) == [
        Entry(b"task-a-b-0", b'{"properties":{"x":"1"}}'),
        Entry(b"task-a-b-1", '{"properties":{"x":"ü"}}'.encode()),
        Entry(b"commit-a-b", b'{"tasks":2}'),
    ]
    assert configs.removal_entries("a-b") == [Entry(b"connector-a-b"), Entry(b"target-state-a-b")]
    assert configs.restart_entry("a", include_tasks=True, only_failed=False) == Entry(
        b"restart-connector-a", b'{"include-tasks":true,"only-failed":false}'
    )
    assert configs.logger_entry("x.y", "DEBUG") == Entry(b"logger-cluster-x.y", b'{"level":"DEBUG"}')


def test_what_was_written_of_configs_is_read() -> None:
    found = Configs()
    for each in [
        *configs.connector_entries("a-b", CONFIG, Target.PAUSED),
        *configs.task_entries("a-b", [{"x": "1"}, {"x": "2"}]),
        configs.restart_entry("a-b", include_tasks=False, only_failed=False),
        configs.logger_entry("root", "WARN"),
        Entry(b"session-key", b'{"key":"x","algorithm":"HmacSHA256","creation-timestamp":1}'),
    ]:
        found.replay(each)
    assert found.connectors == {"a-b": CONFIG}
    assert found.targets == {"a-b": Target.PAUSED}
    assert found.tasks == {"a-b": [{"x": "1"}, {"x": "2"}]}
    assert found.loggers == {"root": "WARN"}
    for each in configs.removal_entries("a-b"):
        found.replay(each)
    assert not found.connectors and not found.targets and not found.tasks


def test_tasks_count_once_they_are_committed_and_complete() -> None:
    found = Configs()
    one, two, commit = configs.task_entries("a", [{"x": "1"}, {"x": "2"}])
    found.replay(one)
    found.replay(commit)
    assert found.tasks == {}, "there is no such connector"
    for each in [*configs.connector_entries("a", {}), one, commit]:
        found.replay(each)
    assert found.tasks == {}, "the other was compacted away"
    for each in [one, two]:
        found.replay(each)
    assert found.tasks == {}
    found.replay(commit)
    assert found.tasks == {"a": [{"x": "1"}, {"x": "2"}]}
    for each in configs.task_entries("a", []):
        found.replay(each)
    assert found.tasks == {"a": []}


def test_a_target_of_an_older_worker_is_understood() -> None:
    found = Configs()
    found.replay(Entry(b"target-state-a", b'{"state":"PAUSED"}'))
    assert found.targets == {"a": Target.PAUSED}


def test_statuses_are_written_and_read_as_connect_does() -> None:
    running, failed = Status(State.RUNNING, "h:1", "", 3, "1.0"), Status(State.FAILED, "h:1", "Traceback\n…", 3)
    entries = [
        statuses.connector_entry("a-b", running),
        statuses.task_entry("a-b", 0, failed),
        statuses.topic_entry("a-b", "orders", 17),
    ]
    assert entries == [
        Entry(
            b"status-connector-a-b",
            b'{"state":"RUNNING","trace":null,"worker_id":"h:1","generation":3,"version":"1.0"}',
        ),
        Entry(
            b"status-task-a-b-0",
            '{"state":"FAILED","trace":"Traceback\\n…","worker_id":"h:1","generation":3,"version":null}'.encode(),
        ),
        Entry(
            b"status-topic-orders:connector-a-b",
            b'{"topic":{"name":"orders","connector":"a-b","task":0,"discoverTimestamp":17}}',
        ),
    ]
    found = Statuses()
    for each in entries:
        found.replay(each)
    assert found.connectors == {"a-b": running}
    assert found.tasks == {"a-b": {0: failed}}
    assert found.topics == {"a-b": {"orders": 17}}
    for each in entries:
        found.replay(Entry(each.key))
    assert found.connectors == {} and found.tasks == {"a-b": {}} and found.topics == {"a-b": {}}


def test_offsets_are_kept_by_partition_and_taken_back_under_the_keys_they_were_written() -> None:
    found = Offsets()
    theirs = Entry(b'["a", {"table": "t", "db": "d"}]', b'{"id": 5}')
    found.replay(theirs)
    found.replay(Entry(b'["a",{"table":"u"}]', b'{"id":1}'))
    place = found.of("a")[0]
    assert place == {"partition": {"table": "t", "db": "d"}, "offset": {"id": 5}}
    assert found.altered("a", [{"partition": {"db": "d", "table": "t"}, "offset": {"id": 9}}]) == [
        Entry(theirs.key, b'{"id":9}')
    ]
    assert found.altered("a", [{"partition": {"table": "new"}, "offset": None}]) == [Entry(b'["a",{"table":"new"}]')]
    assert found.reset("a") == [Entry(theirs.key), Entry(b'["a",{"table":"u"}]')]
    for each in found.reset("a"):
        found.replay(each)
    assert found.of("a") == found.of("unknown") == []


@pytest.mark.parametrize(
    ("kept", "wrong"),
    [
        (Configs, Entry(b"connector-a", b"nonsense")),
        (Configs, Entry(b"connector-a", b'{"properties": 5}')),
        (Configs, Entry(b"connector-a", b"[]")),
        (Configs, Entry(b"task-5", b'{"properties": {}}')),
        (Configs, Entry(b"commit-a", b'{"tasks": "two"}')),
        (Configs, Entry(b"target-state-a", b'{"state": "FLYING"}')),
        (Configs, Entry(b"\xff", b"{}")),
        (Configs, Entry(b"other", b"{}")),
        (Statuses, Entry(b"status-connector-a", b'{"state": "FLYING", "worker_id": "", "generation": 1}')),
        (Statuses, Entry(b"status-task-a", b"{}")),
        (Statuses, Entry(b"status-topic-a", b"{}")),
        (Statuses, Entry(b"connector-a", b"{}")),
        (Offsets, Entry(b"5", b"{}")),
        (Offsets, Entry(b'["a"]', b"{}")),
        (Offsets, Entry(b'["a", 5]', b"{}")),
        (Offsets, Entry(b'["a", {}]', b"5")),
    ],
)
def test_what_is_none_of_connect_s_is_told(kept: type[Configs | Statuses | Offsets], wrong: Entry) -> None:
    with pytest.raises(BadEntry):
        kept().replay(wrong)
