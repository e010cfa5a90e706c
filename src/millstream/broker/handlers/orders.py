"""What brokers ask of each other: the controller's orders (APIs 4 to 6), and requests to it (7 and 56)."""

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from millstream.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def leader_and_isr(broker: Broker, request: LeaderAndIsrRequest, call: Call) -> LeaderAndIsrResponse:
    """Lead or follow partitions."""
    return await broker.orders.follow(request)


async def stop_replica(broker: Broker, request: StopReplicaRequest, call: Call) -> StopReplicaResponse:
    """Give partitions up."""
    return await broker.orders.stop_replicas(request)


async def update_metadata(broker: Broker, request: UpdateMetadataRequest, call: Call) -> UpdateMetadataResponse:
    """Hear of the cluster."""
    return await broker.orders.update_view(request)


async def alter_partition(broker: Broker, request: AlterPartitionRequest, call: Call) -> AlterPartitionResponse:
    """A leader asks the controller for another in-sync set."""
    return await broker.controller.alter_partitions(request)


async def controlled_shutdown(
    broker: Broker, request: ControlledShutdownRequest, call: Call
) -> ControlledShutdownResponse:
    """A broker asks the controller to hand over what it leads; what nobody could take is told."""
    remaining = await broker.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    return ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining]
    )
