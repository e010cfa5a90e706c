"""Assignors: who should have which partitions, by the name that members and settings call them."""

from typing import Final

from millstream.coordination.groups.consumer.assignors import ranges, uniform
from millstream.coordination.groups.consumer.assignors.share import Assign

#: Kafka's own, all that it ships.
ASSIGNORS: Final[dict[str, Assign]] = {"uniform": uniform.assign, "range": ranges.assign}
