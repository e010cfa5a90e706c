"""Offsets of sinks, as somebody may have written them."""

from typing import Any

import pytest

from millstream.model.ids import TopicPartition
from millstream.pipelines.connect.runtime.refusals import Refused
from millstream.pipelines.connect.runtime.sink_offsets import parsed


def place(offset: Any, partition: Any = 0, topic: Any = "t") -> Any:
    return {"partition": {"kafka_topic": topic, "kafka_partition": partition}, "offset": offset}


def test_numbers_may_be_text_and_no_offset_is_to_be_forgotten() -> None:
    assert parsed([place({"kafka_offset": "7"}, "3"), place({"kafka_offset": 9}), place(None, 1)]) == {
        TopicPartition("t", 3): 7,
        TopicPartition("t", 0): 9,
        TopicPartition("t", 1): None,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        place({"kafka_offset": 1}, "x"),
        place({"kafka_offset": 1}, 1.5),
        place({"kafka_offset": 1}, True),
        place({"kafka_offset": 1}, 2**31),
        place({"kafka_offset": 1}, None),
        place({"kafka_offset": 1}, 0, None),
        place({"kafka_offset": 2**63}),
        place({"kafka_offset": "²"}),
        place({"kafka_offset": None}),
        place({"offset": 1}),
        {"partition": {"kafka_topic": "t"}, "offset": None},
        {"partition": None, "offset": None},
    ],
)
def test_what_is_no_place_is_refused(wrong: Any) -> None:
    with pytest.raises(Refused) as caught:
        parsed([wrong])
    assert caught.value.status == 400
