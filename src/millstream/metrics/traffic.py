"""What goes in and out of one topic."""

from millstream.metrics import table
from millstream.metrics.metric import Metrics


class TopicTraffic:
    """A topic's counters; every partition holds them, so that counting needs no lookup."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
    )

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self.bytes_in = metrics.cell(table.BYTES_IN, topic)
        self.bytes_out = metrics.cell(table.BYTES_OUT, topic)
        self.messages_in = metrics.cell(table.MESSAGES_IN, topic)
        self.produces = metrics.cell(table.PRODUCE_REQUESTS, topic)
        self.fetches = metrics.cell(table.FETCH_REQUESTS, topic)
        self.failed_produces = metrics.cell(table.FAILED_PRODUCE_REQUESTS, topic)
        self.failed_fetches = metrics.cell(table.FAILED_FETCH_REQUESTS, topic)
