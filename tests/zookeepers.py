"""Real ZooKeeper servers for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.cli.cluster.zookeeper import Ports, ZooKeeperServer, free_ports

#: A test's tree need not survive the machine, and an fsync may take long where others test too.
OPTIONS = ("-Dzookeeper.forceSync=no",)


@contextmanager
def running(folder: Path, count: int = 1) -> Iterator[list[ZooKeeperServer]]:
    """An ensemble of so many servers that serves."""
    ports = free_ports(3 * count)
    ensemble = [Ports(*ports[3 * number : 3 * number + 3]) for number in range(count)]
    servers = [ZooKeeperServer(folder / str(number), number, ensemble, OPTIONS) for number in range(1, count + 1)]
    try:
        for server in servers:
            server.start()
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            server.kill()
