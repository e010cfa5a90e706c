"""Copies a topic through ``millstream.process``, as a process of its own that may be killed at any moment.

    python -m tests.system.copier --bootstrap … --delivery exactly_once [--instance NAME]

SIGTERM ends it in good order.
"""

import argparse
import logging
import signal
import threading
import time

import millstream

SOURCE, SINK, GROUP = "numbers", "copies", "copiers"
#: Slow enough that a kill is likely to find something sent that is not committed yet.
RECORD_S = 0.003


def copied(record: millstream.Record) -> millstream.Output:
    """The same again, in the same partition, so that what was in order stays so."""
    time.sleep(RECORD_S)
    return millstream.Output(record.value, partition=record.partition)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--delivery", required=True)
    parser.add_argument("--instance")
    parser.add_argument("--session-ms", type=int, default=5_000)
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    millstream.process(
        SOURCE,
        SINK,
        copied,
        group=GROUP,
        instance=options.instance,
        delivery=options.delivery,
        bootstrap=options.bootstrap,
        commit_ms=50,
        stop=stop,
        consumer_config={
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": 200,
            "reconnect.backoff.max.ms": 200,
        },
        producer_config={"reconnect.backoff.max.ms": 200, "linger.ms": 2}
        | ({"transaction.timeout.ms": 3_000} if options.delivery == "exactly_once" else {}),
    )


if __name__ == "__main__":
    main()
