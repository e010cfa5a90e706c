"""How long requests take."""

from millstream.broker.routes import Route
from millstream.metrics.metric import Metrics, Summary
from millstream.metrics.table import REQUEST_TIME_MS
from millstream.protocol.messages.fetch import FetchRequest


class RequestTimes:
    """A summary for each kind of request that was ever made, by Kafka's names: a fetch counts by who fetches."""

    __slots__ = ("_metrics", "_of_brokers", "_of_clients")

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._of_clients: dict[type, Summary] = {}
        self._of_brokers: dict[type, Summary] = {}

    def observe(self, route: Route, took_s: float, *, by_broker: bool) -> None:
        """Count in a request from its last byte in to its answer's hand-over."""
        known = self._of_brokers if by_broker else self._of_clients
        summary = known.get(route.request)
        if summary is None:
            summary = known[route.request] = self._metrics.summary(REQUEST_TIME_MS, _name(route, by_broker))
        summary.observe(took_s * 1000)


def _name(route: Route, by_broker: bool) -> str:
    if route.request is not FetchRequest:
        return route.name
    return "FetchFollower" if by_broker else "FetchConsumer"
