"""The worker itself: who it is, whether it is well, what it counts."""

from http import HTTPStatus
from typing import TYPE_CHECKING

from millstream import __version__
from millstream.metrics.prometheus import CONTENT_TYPE, lines
from millstream.net.http import Page
from millstream.pipelines.connect.rest.exchange import Call, answer

if TYPE_CHECKING:
    from millstream.pipelines.connect.rest.api import Api


async def info(api: "Api", call: Call) -> Page:
    """GET /"""
    cluster_id = api.worker.cluster.cluster_id
    return answer({"version": __version__, "commit": "unknown", "kafka_cluster_id": cluster_id})


async def health(api: "Api", call: Call) -> Page:
    """GET /health: well when every connector was read and is looked after."""
    if api.is_ready:
        return answer({"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."})
    starting = {"status": "starting", "message": "Worker is still starting up."}
    return answer(starting, HTTPStatus.SERVICE_UNAVAILABLE)


async def metrics(api: "Api", call: Call) -> Page:
    """GET /metrics, for Prometheus."""
    return Page(HTTPStatus.OK, CONTENT_TYPE, lines(api.worker.metrics.metrics))
