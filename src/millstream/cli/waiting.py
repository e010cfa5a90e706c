"""The coordinators of a cluster, with a word on standard error when one keeps a command waiting."""

import sys

from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators


def coordinators_of(cluster: Cluster) -> Coordinators:
    """What commands about groups and transactions ask."""
    return Coordinators(cluster, lambda line: print(f"millstream: {line}", file=sys.stderr, flush=True))
