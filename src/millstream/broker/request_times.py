"""How long requests take."""

from millstream.broker.routes import Route
from millstream.metrics.metric import Metrics, Summary
from millstream.metrics.table import REQUEST_TIME_MS
from millstream.protocol.messages.fetch import FetchRequest


class RequestTimes:
    """A summary for each kind of request that was ever made, by Kafka's names: a fetch counts by who fetches."""

    __slots__ = ("_metrics", "_summaries")

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._summaries: dict[tuple[int, bool], Summary] = {}

    def observe(self, route: Route, took_s: float, *, by_broker: bool) -> None:
        """Count in a request from its last byte in to its answer's hand-over."""
        key = route.key, by_broker
        summary = self._summaries.get(key)
        if summary is None:
            summary = self._summaries[key] = self._metrics.summary(REQUEST_TIME_MS, _name(route, by_broker))
        summary.observe(took_s * 1000)


def _name(route: Route, by_broker: bool) -> str:
    if route.request is not FetchRequest:
        return route.name
    return "FetchFollower" if by_broker else "FetchConsumer"
