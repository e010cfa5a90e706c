"""Offsets translated: exactly where all is known, and never behind a record that was not read."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.translation import Run, Translation, Translations, joined


def learnt(*runs: Run, runs_max: int = 4096) -> Translation:
    translation = Translation(runs_max)
    for run in runs:
        translation.learn(run)
    return translation


def test_within_a_run_an_offset_is_exact_and_behind_it_the_runs_end() -> None:
    translation = learnt(Run(10, 100, 5), Run(20, 106, 5))
    assert [translation.downstream(offset) for offset in (10, 12, 15, 19, 20, 24, 25, 90)] == [
        *(100, 102, 105, 105),
        *(106, 110, 111, 111),
    ]


def test_before_all_that_is_known_there_is_no_telling() -> None:
    assert learnt(Run(10, 100, 5)).downstream(9) is None
    assert Translations().downstream(TopicPartition("t", 0), 5) is None


def test_a_sync_of_one_record_lets_a_group_that_read_it_go_on_behind_it() -> None:
    translation = learnt(Run(10, 100, 1))
    assert [translation.downstream(offset) for offset in (10, 11, 500)] == [100, 101, 101]


def test_a_topic_that_was_made_again_on_either_side_begins_anew() -> None:
    assert learnt(Run(10, 100, 5), Run(0, 200, 5)).downstream(12) == 205
    assert learnt(Run(10, 100, 5), Run(15, 0, 5)).downstream(12) is None


def test_what_is_known_already_changes_nothing() -> None:
    translation = learnt(Run(0, 0, 5), Run(10, 100, 5), Run(14, 104, 1))
    assert [translation.downstream(offset) for offset in (3, 12)] == [3, 102]


def test_runs_that_follow_each_other_are_one() -> None:
    assert joined([Run(0, 7, 2), Run(2, 9, 1), Run(4, 10, 1)]) == [Run(0, 7, 3), Run(4, 10, 1)]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Records by both their offsets, with holes on both sides."""
    up = down = 0
    records = []
    for _ in range(draw(st.integers(1, 60))):
        up += draw(st.sampled_from([0, 0, 0, 1, 3]))
        down += draw(st.sampled_from([0, 0, 0, 1, 2]))
        records.append((up, down))
        up, down = up + 1, down + 1
    return records


@given(histories(), st.integers(2, 10), st.integers(0, 250), st.sets(st.integers(0, 59)))
def test_nothing_unread_is_passed_over_however_much_was_forgotten(
    records: list[tuple[int, int]], runs_max: int, at: int, untold: set[int]
) -> None:
    translation = learnt(
        *joined(Run(up, down, 1) for number, (up, down) in enumerate(records) if number not in untold),
        runs_max=runs_max,
    )
    found = translation.downstream(at)
    unread = [down for up, down in records if up >= at]
    assert found is None or all(found <= down for down in unread)


@given(histories(), st.integers(0, 250))
def test_nothing_is_read_again_where_all_is_known(records: list[tuple[int, int]], at: int) -> None:
    found = learnt(*(Run(up, down, 1) for up, down in records)).downstream(at)
    assert found is None or all(down < found for up, down in records if up < at)
    assert found is not None or at < records[0][0]
