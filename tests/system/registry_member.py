"""A registry consumer in a process of its own: prints what it owns when that changes, and every record it reads.

``python -m tests.system.registry_member zk://… GROUP PATTERN``
"""

import asyncio
import signal
import sys
from contextlib import suppress

from millstream.client.registry_consumer import RegistryConsumer

SESSION_TIMEOUT_MS = 3_000


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def main(registry: str, group: str, pattern: str) -> None:
    consumer = await RegistryConsumer.open(registry, group, include=pattern, session_timeout_ms=SESSION_TIMEOUT_MS)

    async def tell_owned() -> None:
        told = None
        while True:
            if consumer.owned != told:
                told = consumer.owned
                say("owns", *sorted(f"{topic}:{number}" for topic, number in told))
            await asyncio.sleep(0.02)

    async def read() -> None:
        async for read in consumer:
            for record in read.records:
                value = (record.value or b"").decode()
                say("read", f"{read.partition.topic}:{read.partition.partition}", str(record.offset), value)

    async with consumer:
        work = asyncio.gather(tell_owned(), read())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
        with suppress(asyncio.CancelledError):
            await work


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
