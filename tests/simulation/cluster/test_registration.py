"""A broker that is back from an unclean stop says so until a controller has heard of it."""

import asyncio

from millstream.broker.registration import Registration
from millstream.registry.membership import lay_out
from millstream.registry.nodes import BROKER, BrokerRegistration, Endpoint
from tests.simulation.cluster.processes import Process
from tests.simulation.cluster.registry import Ensemble
from tests.simulation.cluster.test_processes import with_session
from tests.simulation.network import SimNetwork


def test_a_life_that_began_unclean_says_so_again_until_a_controller_has_heard_of_it() -> None:
    async def scenario(ensemble: Ensemble, process: Process, network: SimNetwork) -> None:
        session = ensemble.open("broker", process)
        await lay_out(session)
        orders = list[str]()

        def describe(is_clean: bool) -> BrokerRegistration:
            return BrokerRegistration((Endpoint("PLAINTEXT", "broker", 9092),), is_clean=is_clean)

        registration = Registration(session, 1, describe, lambda epoch: None, lambda: bool(orders))
        await registration.start(is_clean=False, patience_s=1)
        told = []
        for heard in ([], ["follow"]):
            orders += heard
            ensemble.expire("broker")
            await asyncio.sleep(2)
            told.append(BROKER.decode((await session.get(BROKER.path(1))).data).is_clean)
        assert told == [False, True]
        await registration.close()

    with_session(scenario)
