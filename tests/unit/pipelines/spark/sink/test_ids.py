"""Whose turn it is among a worker's transactional ids."""

from millstream.pipelines.spark.sink.ids import READY_S, QueryIds, Ready, Terms, WorkerIds
from millstream.pipelines.spark.sink.protocol import Transaction

FIRST, SECOND = Transaction("a", 1, 0, True), Transaction("b", 2, 0, True)
NEXT = FIRST._replace(producer_epoch=1)


def _after_two_batches(ready_since_s: float = 0.0) -> QueryIds:
    """Two batches were written, and the first one's id is ready for the third."""
    ids = QueryIds()
    ids.begun(FIRST, 5)
    ids.begun(SECOND, 6)
    ids.ready["a"] = Ready(NEXT, ready_since_s)
    return ids


def test_what_is_ready_serves_the_next_batch_once() -> None:
    ids = _after_two_batches()
    assert ids.taken(7, now_s=1.0) == NEXT
    assert ids.uses == {"a": 7, "b": 6}
    assert ids.last["a"] == NEXT
    assert ids.taken(8, now_s=1.0) is None


def test_a_batch_that_comes_again_is_not_written_under_what_is_ready_for_the_next() -> None:
    """What it was made of the last time may be decided, and the batch before as well."""
    ids = _after_two_batches()
    assert ids.taken(6, now_s=1.0) is None
    assert ids.taken(7, now_s=1.0) == NEXT


def test_what_was_ready_long_ago_is_asked_about_again() -> None:
    assert _after_two_batches(ready_since_s=0.0).taken(7, now_s=READY_S) is None


def test_on_other_terms_every_id_is_initialised_anew() -> None:
    ids = _after_two_batches()
    ids.agree(Terms(0, True))
    assert ids.taken(7, now_s=1.0) is None
    assert not ids.last
    assert ids.uses == {"a": 5, "b": 6}, "whose turn it is stays as it was"


def test_on_the_same_terms_they_go_on() -> None:
    ids = QueryIds()
    ids.agree(Terms(0, True))
    ids.begun(FIRST, 5)
    ids.agree(Terms(0, True))
    assert ids.last == {"a": FIRST}


def test_no_id_is_made_twice_though_a_query_is_forgotten() -> None:
    ids = WorkerIds("nonce")
    names = [ids.new("q"), ids.new("q")]
    ids.dismiss("q")
    names.append(ids.new("q"))
    assert names == [f"millstream-sink/q/nonce/{number}" for number in (1, 2, 3)]


def test_a_worker_that_writes_for_ever_new_jobs_does_not_keep_their_ids() -> None:
    ids = WorkerIds("nonce")
    for number in range(1_000):
        ids.of(f"job-{number}")
        ids.of("stream")
    assert len(ids) <= 64
    assert "stream" in ids
    ids.dismiss("stream")
    assert "stream" not in ids
