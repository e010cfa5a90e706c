from millstream.pipelines.spark.sink.coordinator import decoded, encoded, transactional_prefix
from millstream.pipelines.spark.sink.protocol import Decision, Transaction


def test_a_decision_is_read_as_it_was_written() -> None:
    one, other = Transaction("q/a/1", 5, 3, True), Transaction("q/b/1", 6, 0)
    decision = Decision(12, (one, other), (other,))
    assert decoded(encoded(decision)) == decision
    assert decoded(encoded(Decision())) == Decision()


def test_no_query_is_taken_for_part_of_another() -> None:
    """The sweep of one query must not end the transactions of another whose id begins alike."""
    assert not transactional_prefix("app-10").startswith(transactional_prefix("app-1"))
