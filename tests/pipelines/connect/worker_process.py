"""A worker whose connectors are played: `python -m … BOOTSTRAP DATA PORT GROUP`."""

import asyncio
import os
import sys

from millstream.client.wire import parse_addresses
from millstream.pipelines.connect.rest.server import ServeOptions, serve
from millstream.pipelines.running.restarts import Restarts


def main() -> None:
    """Serve until told to stop."""
    bootstrap, data, port, group = sys.argv[1:]
    options = ServeOptions(
        bootstrap=bootstrap,
        addresses=parse_addresses(bootstrap),
        data=data,
        host="127.0.0.1",
        port=int(port),
        group=group,
        defaults={"value.converter": "org.apache.kafka.connect.storage.StringConverter"},
        env=os.environ,
        command=(sys.executable, "-m", "tests.pipelines.connect.scripted_process"),
        restarts=lambda: Restarts(first_s=0.05, cap_s=0.2),
    )
    asyncio.run(
        serve(
            options,
            lambda place: print(f"ready {place}", flush=True),  # noqa: T201
            lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
        )
    )


if __name__ == "__main__":
    main()
