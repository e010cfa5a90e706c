"""Settings that change while a broker runs reach the logs that it holds."""

from millstream.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.simulation.asking import simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork


def test_a_changed_default_reaches_partitions_of_which_no_news_told_yet() -> None:
    """The controller has replicas made before it tells of them, and a broker may work at that for a while."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        broker = await machine.start()
        role = LeaderAndIsrPartitionState(
            controller_epoch=broker.controller.epoch, leader=broker.id, isr=[broker.id], replicas=[broker.id]
        )
        order = LeaderAndIsrRequest(
            controller_id=broker.id,
            controller_epoch=broker.controller.epoch,
            topic_states=[
                LeaderAndIsrTopicState(topic_name="orders", topic_id=bytes(15) + b"1", partition_states=[role])
            ],
        )
        await broker.orders.follow(order)
        assert "orders" not in broker.cluster.topics
        log = broker.replicas.find("orders", 0).log
        assert log is not None and log.config.min_insync_replicas == 1
        await broker.settings.change_broker("", lambda before: {"min.insync.replicas": "2"}, validate_only=False)
        assert log.config.min_insync_replicas == 2
        await machine.stop()

    simulate(scenario)
