"""Incremental fetch sessions, by the rules of KIP-227."""

from itertools import count

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID
from millstream.replication.fetch_sessions import EPOCH_MAX, FINAL_EPOCH, FULL_EPOCH, FetchSessions, Key, Wanted


def key(partition: int) -> Key:
    return Key("orders", ZERO_UUID, partition)


def sessions(slots: int = 10) -> FetchSessions:
    ids = count(1)
    return FetchSessions(slots, evictable_after_ms=1_000, new_id=lambda: next(ids))


def test_a_full_fetch_opens_a_session_and_later_ones_name_only_changes() -> None:
    cache = sessions()
    first = cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100)), (key(1), Wanted(0, 100))], [], 0)
    assert first.is_full and first.session_id == 1
    second = cache.view(1, 1, [(key(0), Wanted(7, 100)), (key(2), Wanted(3, 100))], [key(1)], 1)
    assert not second.is_full
    assert {name.partition: wanted.fetch_offset for name, wanted in second.items()} == {0: 7, 2: 3}


def test_a_fetch_without_a_session_gets_none() -> None:
    view = sessions().view(0, FINAL_EPOCH, [(key(0), Wanted(0, 100))], [], 0)
    assert view.session is None and view.session_id == 0 and view.is_full


def test_the_final_epoch_closes_the_session() -> None:
    cache = sessions()
    cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100))], [], 0)
    cache.view(1, FINAL_EPOCH, [], [], 0)
    assert len(cache) == 0
    with pytest.raises(ProtocolError) as refusal:
        cache.view(1, 1, [], [], 0)
    assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_wrong_epoch_is_refused_and_the_right_one_goes_on() -> None:
    cache = sessions()
    cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100))], [], 0)
    with pytest.raises(ProtocolError) as refusal:
        cache.view(1, 2, [], [], 0)
    assert refusal.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    cache.view(1, 1, [], [], 0)
    cache.view(1, 2, [], [], 0)


def test_epochs_wrap_to_one() -> None:
    cache = sessions()
    session = cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100))], [], 0).session
    assert session is not None
    session.epoch = EPOCH_MAX
    cache.view(1, EPOCH_MAX, [], [], 0)
    assert session.epoch == 1


def test_a_busy_cache_gives_no_session_and_an_idle_one_gives_up_its_oldest() -> None:
    cache = sessions(slots=1)
    cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100))], [], 0)
    assert cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100))], [], 999).session_id == 0
    assert cache.view(0, FULL_EPOCH, [(key(0), Wanted(0, 100))], [], 1_000).session_id == 2
    assert len(cache) == 1


def test_only_news_is_told() -> None:
    wanted = Wanted(0, 100)

    def tell(*, has_records: bool = False, error: bool = False, watermark: int = 5, start: int = 0) -> bool:
        return wanted.is_news(has_records=has_records, error=error, high_watermark=watermark, log_start_offset=start)

    assert tell()
    assert not tell()
    assert tell(has_records=True)
    assert tell(watermark=6)
    assert tell(watermark=6, start=1)
    assert tell(watermark=6, start=1, error=True)
    assert tell(watermark=6, start=1)  # The error is over, which is news.
    assert not tell(watermark=6, start=1)


def test_a_partition_that_gave_records_goes_last() -> None:
    session = sessions().view(0, FULL_EPOCH, [(key(0), Wanted(0, 1)), (key(1), Wanted(0, 1))], [], 0).session
    assert session is not None
    session.last_shall_be_first(key(0))
    assert [name.partition for name in session.partitions] == [1, 0]
