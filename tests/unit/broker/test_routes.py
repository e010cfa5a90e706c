"""What is advertised is what is served."""

from millstream.broker.routes import Route, Router
from millstream.broker.table import ROUTES
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest
from millstream.protocol.messages.produce import ProduceRequest


async def nobody(broker: object, request: object, call: object) -> None:
    """Answers nothing."""


def test_a_version_may_be_advertised_that_is_not_served() -> None:
    router = Router([Route(ProduceRequest, nobody, advertised_from=0)])
    assert router.advertised()[0].min_version == 0
    assert router.find(ProduceRequest.API_KEY, 0) is None
    assert router.find(ProduceRequest.API_KEY, ProduceRequest.VERSIONS[0]) is not None


def test_two_phase_commit_is_promised() -> None:
    (row,) = [row for row in ROUTES.advertised() if row.api_key == InitProducerIdRequest.API_KEY]
    assert row.max_version == 6
