"""The API: a request's route found and followed, whatever goes wrong answered in Connect's shape."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from millstream.model.errors import ProtocolError
from millstream.net.http import Page, Request
from millstream.pipelines.connect import beside, validation
from millstream.pipelines.connect.providers import Providers
from millstream.pipelines.connect.rest import root, routes
from millstream.pipelines.connect.rest.exchange import JSON, Call, error, refusal
from millstream.pipelines.connect.rest.levels import Levels
from millstream.pipelines.connect.runtime.membership import group_id
from millstream.pipelines.connect.runtime.refusals import Refused
from millstream.pipelines.connect.runtime.worker import Worker
from millstream.pipelines.connect.settings import layered

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: As long as Connect lets a request take.
REQUEST_TIMEOUT_S = 90.0
#: How many configs are checked at a time.
CHECKS_MAX = 8
WITH_BODY = ("POST", "PUT", "PATCH")
#: What those accept who can be answered.
ACCEPTED = {JSON, "application/*", "*/*"}


class Api:
    """What answers requests."""

    def __init__(self, worker: Worker, levels: Levels) -> None:
        self.worker = worker
        self.levels = levels
        self.is_ready = False
        self._under_way: set[asyncio.Task[Page]] = set()
        self._providers = Providers.of(worker.settings.providers, worker.settings.env)
        self._checkers = asyncio.Semaphore(CHECKS_MAX)

    async def check(self, work: Callable[[T], R], about: T) -> R:
        """Something that may look outside and take its time, beside the loop and where nobody else has to wait.

        Not even who ends the worker: no thread is waited for that somebody's check does not come back from.
        """
        loop = asyncio.get_running_loop()
        outcome: Future[R] = Future()
        outcome.set_running_or_notify_cancel()  # Whoever gives up does not call it off: it may still come back.

        def run() -> None:
            try:
                outcome.set_result(work(about))
            except BaseException as error:
                outcome.set_exception(error)

        async with self._checkers:
            beside.begin("check", run)
            return await asyncio.wrap_future(outcome, loop=loop)

    async def validate(self, given: Mapping[str, str]) -> dict[str, Any]:
        """What is right and wrong with a config over the worker's; Misconfigured when it names no connector."""
        settings = self.worker.settings
        check = partial(validation.validate, providers=self._providers, worker_group=group_id(settings.group))
        return await self.check(check, layered(settings.defaults, given))

    async def answer(self, request: Request) -> Page:
        """The answer to any request at all."""
        found = routes.found(request.path)
        if not found:
            return _plain(HTTPStatus.NOT_FOUND)
        method = "GET" if request.method == "HEAD" else request.method
        allowed = ",".join([*found, "OPTIONS", *(["HEAD"] if "GET" in found else [])])
        if method == "OPTIONS":
            return Page(HTTPStatus.OK, JSON, (), {"Allow": allowed})
        if method not in found:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, Allow=allowed)
        # Not without a type either: a page in somebody's browser can send that to a worker on the same machine.
        if request.body and JSON not in _types(request, "content-type") and method in WITH_BODY:
            return _plain(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        route, named = found[method]
        if route.handle is not root.metrics and not _types(request, "accept", JSON) & ACCEPTED:
            return _plain(HTTPStatus.NOT_ACCEPTABLE)
        if not self.is_ready and named:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "Worker is still starting up.")
        return await self._follow(route, Call(named, request.query, request.body, request.headers.get("host", "")))

    async def _follow(self, route: routes.Route, call: Call) -> Page:
        """What the route makes of it; what was begun is done, though nobody waits for it any more."""
        work = asyncio.create_task(self._handle(route, call))
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        done, _ = await asyncio.wait([work], timeout=REQUEST_TIMEOUT_S)
        return work.result() if done else error(HTTPStatus.INTERNAL_SERVER_ERROR, "Request timed out")

    async def _handle(self, route: routes.Route, call: Call) -> Page:
        try:
            return await route.handle(self, call)
        except Refused as refused:
            return refusal(refused)
        except (ProtocolError, OSError) as fault:
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, str(fault))
        except Exception as fault:
            logger.exception("%s %s went wrong", route.method, route.path)
            return error(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(fault).__name__}: {fault}")


def _types(request: Request, header: str, otherwise: str = "") -> set[str]:
    """The media types that a header names, without their parameters."""
    return {each.partition(";")[0].strip().lower() for each in request.headers.get(header, otherwise).split(",")}


def _plain(status: HTTPStatus, **headers: str) -> Page:
    return error(status, f"HTTP {status.value} {status.phrase}", **headers)
