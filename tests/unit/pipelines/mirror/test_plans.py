"""What is decided of tasks, topics and groups, before anybody is asked for anything."""

from pathlib import Path

from millstream.client.admin import Change, Operation, SettingValue
from millstream.client.groups import Committed
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.batches import identity, is_new
from millstream.pipelines.mirror.definition import Mirror
from millstream.pipelines.mirror.formats import Checkpoint
from millstream.pipelines.mirror.groups import ahead, checkpoints_of
from millstream.pipelines.mirror.passing import Done, Stretch
from millstream.pipelines.mirror.policy import Patterns
from millstream.pipelines.mirror.source import shared
from millstream.pipelines.mirror.topics import changes, own_settings
from millstream.pipelines.mirror.translation import Run, Translations
from millstream.pipelines.spark.sink.protocol import Transaction

FLOW = Mirror(
    "clusters=A,B\nA.bootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true\ntopics=orders\n", "f"
).flows[0]


def stretch(number: int, length: int) -> Stretch:
    return Stretch("t", number, 10, 10 + length, "A.t")


def test_tasks_have_about_as_much_to_do_and_nothing_is_left_out() -> None:
    given = [stretch(number, length) for number, length in enumerate([5, 50, 20, 30, 5])]
    groups = shared(given, 2)
    assert [sum(each.stop - each.start for each in group) for group in groups] == [55, 55]
    assert sorted(each for group in groups for each in group) == given
    assert shared(given[:1], 8) == [given[:1]]
    assert shared([], 8) == []


def test_what_a_task_did_survives_its_way_to_the_driver() -> None:
    done = Done(Transaction("id", 5, 1, True), 7, 700, ("t-1: gone",), {TopicPartition("t", 1): [Run(1, 2, 3)]})
    assert Done.from_text(done.to_text()) == done
    assert Done.from_text(Done().to_text()) == Done()


def test_only_a_topics_own_settings_are_mirrored_and_what_is_gone_is_taken_back() -> None:
    found = [
        SettingValue("retention.ms", "5", "topic", False, False, None),
        SettingValue("min.insync.replicas", "2", "topic", False, False, None),
        SettingValue("segment.bytes", "9", "default", False, False, None),
    ]
    assert own_settings(found, Patterns(["min.insync.replicas"])) == {"retention.ms": "5"}
    assert changes({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == [
        Change("a", Operation.SET, "1"),
        Change("b", Operation.SET, "2"),
        Change("c", Operation.DELETE),
    ]


def test_a_groups_offsets_are_translated_where_the_topic_is_mirrored_and_the_place_is_known() -> None:
    translations = Translations()
    orders, others = TopicPartition("orders", 0), TopicPartition("others", 0)
    for tp in (orders, others):
        translations.learn(tp, [Run(10, 100, 5)])
    committed = {orders: Committed(12, "note"), others: Committed(12), TopicPartition("orders", 1): Committed(12)}
    remote = TopicPartition("A.orders", 0)
    [checkpoint] = checkpoints_of(FLOW, "g", committed, translations)
    assert checkpoint == Checkpoint("g", remote, 12, 102, "note")
    assert ahead([checkpoint], {}) == {remote: 102}
    assert ahead([checkpoint], {remote: Committed(101)}) == {remote: 102}
    assert ahead([checkpoint], {remote: Committed(102)}) == {}


def test_a_checkpoint_is_the_same_flow_for_as_long_as_it_is_there(tmp_path: Path) -> None:
    assert is_new(str(tmp_path / "new"))
    first = identity(str(tmp_path / "new"))
    assert not is_new(str(tmp_path / "new"))
    assert identity(str(tmp_path / "new")) == first
    assert identity(str(tmp_path / "other")) != first
