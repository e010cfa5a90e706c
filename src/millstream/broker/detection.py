"""Quick detection: a dead process refuses connections at once, long before the registry notices its silence.

A broker listens before it registers, so whoever is registered and refuses is dead.  The guess may be wrong all the
same (an address that never was right, a restart between two looks); epochs keep it safe, and nobody is struck off again
and again for an address that never worked: only who was once reached under its registration, or was registered before
this controller came.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.broker.cluster_view import Endpoint
from millstream.model.errors import ProtocolError
from millstream.registry.nodes import CONTROLLER
from millstream.registry.tree import Registry, RegistryError

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

_log = logging.getLogger(__name__)

#: The clients of a broker that died notice it as soon as we do; this much later, we surely have.
NOTICE_S = 0.002
#: How long a broker that hung up may take to come back, or to be struck off.
MISSED_S = 1.0
#: How long clients are told of one that is gone.
TOLD_S = 2.0


class Detection:
    """Tells the controller of brokers that are dead, and takes the place of a controller that is.

    A client whose broker died asks another at once who leads now, sooner than that can be decided, and then not again
    for a second or more.  So whoever asks while a broker that hung up is missed waits until that is settled.
    """

    def __init__(self, broker: "Broker", registry: Registry) -> None:
        self._broker = broker
        self._registry = registry
        self._under_way: dict[tuple[int, int], asyncio.Task[None]] = {}
        #: Brokers that hung up, and until when they are missed.
        self._missed: dict[int, float] = {}
        #: Brokers that are gone, where they were found, and until when that is still told.
        self._gone: dict[int, tuple[dict[str, Endpoint], float]] = {}

    def lost(self, broker_id: int) -> None:
        """The broker hung up."""
        if broker_id in self._broker.cluster.brokers:
            self._missed[broker_id] = asyncio.get_running_loop().time() + MISSED_S

    def reached(self, broker_id: int) -> None:
        """The broker is there."""
        if self._missed.pop(broker_id, None) is not None:
            self._broker.purgatory.wake(self._broker.cluster)

    def gone(self, brokers: Mapping[int, dict[str, Endpoint]]) -> None:
        """The controller no longer counts on these."""
        until_s = asyncio.get_running_loop().time() + TOLD_S
        self._gone |= {broker_id: (endpoints, until_s) for broker_id, endpoints in brokers.items()}

    def remembered(self, listener: str) -> list[Endpoint]:
        """Brokers that went just now, for clients to hand their partitions over from.

        librdkafka loses sight of a partition whose leader goes in the same breath as another takes its place, and looks
        for it again only a second later.
        """
        if not self._gone:
            return []
        now_s, live = asyncio.get_running_loop().time(), self._broker.cluster.brokers
        self._gone = {each: row for each, row in self._gone.items() if each not in live and now_s < row[1]}
        return [endpoints[listener] for endpoints, _ in self._gone.values() if listener in endpoints]

    def _is_settled(self) -> bool:
        """Whether every broker that hung up is there again, or known to be gone, or was missed for long enough."""
        if self._missed:
            now_s = asyncio.get_running_loop().time()
            live = self._broker.cluster.brokers
            self._missed = {each: until_s for each, until_s in self._missed.items() if each in live and now_s < until_s}
        return not self._missed

    async def settle(self) -> None:
        """Return once it is settled who is there."""
        broker = self._broker
        if len(broker.cluster.brokers) < 2:
            return
        await asyncio.sleep(NOTICE_S)
        await broker.purgatory.until(self._is_settled, [broker.cluster], round(MISSED_S * 1000))

    def refused(self, broker_id: int, epoch: int, was_reached: bool) -> None:
        """The broker registered under ``epoch`` refuses connections; see ``BrokerChannels.on_refused``."""
        key = (broker_id, epoch)
        if key not in self._under_way:
            task = self._under_way[key] = asyncio.create_task(self._act(broker_id, epoch, was_reached))
            task.add_done_callback(lambda _: self._under_way.pop(key))

    async def close(self) -> None:
        """Act no more."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _act(self, broker_id: int, epoch: int, was_reached: bool) -> None:
        controller = self._broker.controller
        try:
            if not controller.is_active and was_reached and broker_id == self._broker.cluster.controller_id:
                await controller.claim_is_dead(broker_id)
            if controller.is_active and (was_reached or await self._is_inherited(epoch)):
                await controller.broker_lost(broker_id, epoch)
        except (ProtocolError, RegistryError) as error:  # Then the end of its session tells.
            _log.info("broker %d refuses connections, and could not be struck off: %s", broker_id, error)

    async def _is_inherited(self, epoch: int) -> bool:
        """Whether the registration is older than our being controller."""
        return (await self._registry.get(CONTROLLER.path())).czxid > epoch
