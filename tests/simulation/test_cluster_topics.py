"""Topics made, moved and deleted while brokers are away."""

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import TOPIC, create, leader_id, other_than, replicas_of, until_in_sync, write
from tests.simulation.test_moving import move, until_moved


async def delete(cluster: SimulatedCluster, broker_id: int) -> ErrorCode:
    connection = await cluster.connect(broker_id)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], topic_names=[TOPIC], timeout_ms=5_000)
    answer = await connection.call(request, DeleteTopicsResponse)
    connection.close()
    return ErrorCode(answer.responses[0].error_code)


def held_by(cluster: SimulatedCluster, broker_id: int) -> list[str]:
    """The partitions that lie in a broker's directories."""
    return [str(key) for directory in cluster.broker(broker_id).logs.directories for key in directory.logs]


async def is_known(cluster: SimulatedCluster) -> bool:
    return TOPIC in await cluster.tree.session().children("/brokers/topics")


def test_a_topic_deleted_while_a_broker_is_away_is_gone_there_too_once_it_is_back() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, partitions=3)
        await write(cluster, b"one")
        controller = cluster.controller
        assert controller is not None
        away = other_than(cluster, controller.id).id
        await cluster.kill(away)
        await cluster.until(lambda: away not in controller.cluster.brokers)
        for asked in (broker.id for broker in cluster.running if broker is not controller):
            assert await delete(cluster, asked) is ErrorCode.NONE
            assert await delete(cluster, asked) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await is_known(cluster), "until the last of its replicas is deleted"
        await cluster.members[away].start()
        await cluster.until(lambda: not held_by(cluster, away))
        await cluster.until(lambda: not cluster.tree._store.children("/brokers/topics"))
        await create(cluster, partitions=1)
        await write(cluster, b"another")
        assert leader_id(cluster) > 0
        await cluster.stop()

    simulate(scenario)


def test_a_topic_is_made_on_the_brokers_that_are_there() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        controller = cluster.controller
        assert controller is not None
        away = other_than(cluster, controller.id).id
        await cluster.kill(away)
        await cluster.until(lambda: away not in controller.cluster.brokers)
        connection = await cluster.connect(controller.id)
        topic = CreatableTopic(name="wide", num_partitions=1, replication_factor=3)
        answer = await connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        await create(cluster, replicas=2)
        assert away not in replicas_of(cluster)
        await write(cluster, b"one")
        await cluster.stop()

    simulate(scenario)


def test_what_was_moved_away_from_a_broker_while_it_was_away_is_not_kept() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, count=4)
        await cluster.start()
        await create(cluster, replicas=2)
        await write(cluster, b"one")
        first, second = replicas_of(cluster)
        away = next(number for number in (first, second) if number != leader_id(cluster))
        stays = leader_id(cluster)
        newcomer = other_than(cluster, first, second).id
        await cluster.kill(away)
        asked = other_than(cluster, first, second, newcomer)
        await cluster.until(lambda: away not in asked.cluster.brokers)
        assert await move(cluster, [stays, newcomer], asked) is ErrorCode.NONE
        await until_moved(cluster, stays, newcomer)
        await cluster.members[away].start()
        await cluster.until(lambda: not held_by(cluster, away))
        assert await move(cluster, [stays, newcomer, away], asked) is ErrorCode.NONE
        await until_in_sync(cluster, stays, newcomer, away)
        await cluster.stop()

    simulate(scenario)
