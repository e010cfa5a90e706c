"""What transactions there are: DescribeTransactions and ListTransactions."""

from typing import Final

from millstream.coordination.decision import Decision, Question, reply
from millstream.coordination.patterns.matcher import matching
from millstream.coordination.transactions.epochs import Transactions
from millstream.coordination.transactions.events import DescribeTransaction
from millstream.coordination.transactions.states import NAMES
from millstream.coordination.transactions.transaction import by_topic
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.describe_transactions import TopicData
from millstream.protocol.messages.describe_transactions import TransactionState as Description
from millstream.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

ANY_DURATION: Final = -1
_KNOWN_NAMES = frozenset(NAMES.values())


class Listing:
    """Answers about transactions, and changes nothing."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def describe(self, question: Question, now_ms: int) -> Decision:
        """One transactional id's row."""
        request: DescribeTransaction = question.request
        if not request.transactional_id:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
        found = self._transactions.get(request.transactional_id)
        if found is None:
            raise ProtocolError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return reply(
            question,
            Description(
                transactional_id=found.transactional_id,
                transaction_state=NAMES[found.state],
                transaction_timeout_ms=found.timeout_ms,
                transaction_start_time_ms=found.start_ms,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                topics=[
                    TopicData(topic=group.topic, partitions=group.partition_ids) for group in by_topic(found.partitions)
                ],
            ),
        )

    def list(self, question: Question, now_ms: int) -> Decision:
        """Those of this shard that pass every filter."""
        request: ListTransactionsRequest = question.request
        states, producers = set(request.state_filters), set(request.producer_id_filters)
        longer_than_ms = request.duration_filter
        found = [
            each
            for each in self._transactions.values()
            if (not producers or each.producer_id in producers)
            and (not states or NAMES[each.state] in states)
            and (longer_than_ms <= ANY_DURATION or now_ms - each.start_ms > longer_than_ms)
        ]
        # Last, for it is the most work: there may be very many ids, of which few are of the state that is asked for.
        if pattern := request.transactional_id_pattern:
            named = matching(pattern, [each.transactional_id for each in found])
            found = [each for each in found if each.transactional_id in named]
        rows = [
            TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=NAMES[each.state],
            )
            for each in found
        ]
        response = ListTransactionsResponse(unknown_state_filters=unknown_states(request), transaction_states=rows)
        return reply(question, response)


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """The states it names that there are not."""
    return [name for name in request.state_filters if name not in _KNOWN_NAMES]
