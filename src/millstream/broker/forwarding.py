"""Requests that only the controller can answer: clients ask any broker, and brokers pass them on."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.broker.cluster_view import ClusterView
from millstream.broker.routes import Handler
from millstream.controller.topics import new_topic_id
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID
from millstream.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

_log = logging.getLogger(__name__)

#: How long a broker looks for a controller that answers, for whoever says nothing of time.
TIMEOUT_MS = 30_000
#: The same for a topic that a client did not ask for itself, and waits for all the same.
MAKE_TIMEOUT_MS = 5_000
#: How long it waits before it looks again.
BACKOFF_S = 0.05


def by_controller(handler: Handler, is_shown: Callable[[ClusterView, Any, Any], bool] = lambda *_: True) -> Handler:
    """The same handler on the controller; elsewhere one that has the controller answer.

    The answer is held until this broker's own view shows what came of it (``is_shown``, asked with the view, the
    request and the answer), for the client asks here next.  What another broker passed on is not passed on again: that
    one looks for the controller itself.
    """

    async def handle(broker: "Broker", request: Any, call: Any) -> Any:
        if call.connection.is_broker:
            return await handler(broker, request, call)
        _give_ids(broker, request)
        if broker.controller.is_active:
            return await handler(broker, request, call)
        first = _as_today(request)
        again = _by_ids(first, broker.cluster)
        try:
            response = await ask_controller(broker, first, getattr(request, "timeout_ms", TIMEOUT_MS), again)
        except (ProtocolError, TimeoutError):
            # It refuses all of it, row by row: this is no controller, or has just become one and is asked once more.
            response = await handler(broker, again, call)
        _name_again(first, again, response)
        await broker.until_shown(lambda: is_shown(broker.cluster, request, response))
        return response

    return handle


def _as_today(request: Any) -> Any:
    """The request in the fields of its newest version, in which brokers talk, where older ones had others."""
    if isinstance(request, DeleteTopicsRequest) and request.topic_names:
        topics = [DeleteTopicState(name=name) for name in request.topic_names]
        return DeleteTopicsRequest(topics=topics, timeout_ms=request.timeout_ms)
    return request


def _give_ids(broker: "Broker", request: Any) -> None:
    """Choose the ids of topics to be made: by them the controller knows what it made already, if an answer is lost.

    Clients have no say in it.
    """
    if isinstance(request, CreateTopicsRequest):
        for topic in request.topics:
            topic.chosen_id = ZERO_UUID if request.validate_only else new_topic_id({}, broker.random)


def _by_ids(request: Any, view: ClusterView) -> Any:
    """The request for when an answer was lost: a topic that was deleted may have a namesake by then."""
    if not isinstance(request, DeleteTopicsRequest):
        return request
    topics = [
        DeleteTopicState(topic_id=view.topics[topic.name].topic_id)
        if topic.name in view.topics and topic.topic_id == ZERO_UUID
        else topic
        for topic in request.topics
    ]
    return DeleteTopicsRequest(topics=topics, timeout_ms=request.timeout_ms)


def _name_again(request: Any, by_ids: Any, response: Any) -> None:
    """Answer by names what was asked by names, though ids may have been sent in their place."""
    if not isinstance(response, DeleteTopicsResponse):
        return
    pairs = zip(request.topics, by_ids.topics, strict=True)
    names = {sent.topic_id: asked.name for asked, sent in pairs if asked.name is not None and sent.name is None}
    for row in response.responses:
        if row.name is None and row.topic_id in names:
            row.name = names[row.topic_id]
            if row.error_code == ErrorCode.UNKNOWN_TOPIC_ID:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def ask_controller(broker: "Broker", request: Any, timeout_ms: int, again: Any = None) -> Any:
    """What the controller of the day answers; one that is gone, or is controller no more, is looked for again.

    ``again`` takes the place of ``request`` once an answer was lost or the controller left office over it, for all that
    was asked may be done by then.
    TimeoutError when nobody answered in time, NOT_CONTROLLER when nobody was controller.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1000
    failure: Exception = ProtocolError(ErrorCode.NOT_CONTROLLER, "no broker is controller")
    while True:
        controller = broker.id if broker.controller.is_active else broker.cluster.controller_id
        left_ms = round((deadline_s - loop.time()) * 1000)
        if controller >= 0 and left_ms > 0:
            try:
                response = await broker.channels.send(controller, request, timeout_ms=left_ms)
            except (OSError, TimeoutError) as error:
                _log.info("controller %d did not answer: %s", controller, error)
                failure = TimeoutError(f"controller {controller} did not answer: {error}")
            else:
                if not is_of_no_controller(response):
                    return response
                failure = ProtocolError(ErrorCode.NOT_CONTROLLER, f"broker {controller} is no longer controller")
            request = request if again is None else again
        if loop.time() + BACKOFF_S >= deadline_s:
            raise failure
        await asyncio.sleep(BACKOFF_S)


async def make_topic(broker: "Broker", topic: CreatableTopic) -> CreatableTopicResult:
    """Have the controller make a topic that the broker itself needs; what came of it, once it is known here."""
    try:
        response: CreateTopicsResponse = await broker.ask_controller(
            CreateTopicsRequest(topics=[topic], timeout_ms=MAKE_TIMEOUT_MS), MAKE_TIMEOUT_MS
        )
    except TimeoutError as error:
        raise ProtocolError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
    (made,) = response.topics
    if made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        await broker.until_shown(lambda: topic.name in broker.cluster.topics)
    return made


def is_of_no_controller(response: Any) -> bool:
    """Whether a broker answered that it is not the controller: as a whole, or in each row."""
    if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    rows = [row for field in response.FIELDS for row in _rows(getattr(response, field.name))]
    return bool(rows) and all(getattr(row, "error_code", 0) == ErrorCode.NOT_CONTROLLER for row in rows)


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
