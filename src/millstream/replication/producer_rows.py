"""What a partition remembers of its producers, as administrators are shown it."""

from typing import NamedTuple

from millstream.replication.partition import Partition


class ProducerRow(NamedTuple):
    """A producer's standing in the partition; -1 for what it does not have."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def producer_rows(partition: Partition) -> list[ProducerRow]:
    """What is remembered of each producer, by the partition's leader."""
    return [
        ProducerRow(
            producer.producer_id,
            producer.epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.txn_first_offset,
        )
        for producer in partition.settled_log().producers
    ]
