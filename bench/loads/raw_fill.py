"""Fill a topic with pre-encoded batches, many requests in flight: the quickest way to a log of some size."""

import sys
import time

from bench import wire
from bench.loads import options

IN_FLIGHT_BYTES_MAX = 4 << 20
PROGRESS_EVERY_S = 5.0


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--bytes", type=int, required=True, help="how much of a log to write")
    parser.add_argument("--batch-records", type=int, default=1_000)
    parser.add_argument("--record-bytes", type=int, default=1_000)
    parser.add_argument(
        "--batches", type=int, default=1, help="batches of one request (refused by Apache Kafka above 1)"
    )
    parser.add_argument("--acks", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=0, help="requests unanswered at most (default: 4 MB of them)")
    parser.add_argument("--seconds", type=float, default=3_600.0, help="stop after this long even if bytes are left")
    given = parser.parse_args()
    batch = wire.encode_batch([b"v" * given.record_bytes] * given.batch_records)
    request = wire.produce_frame(given.topic, batch * given.batches, acks=given.acks)
    each_bytes = len(batch) * given.batches
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        before = connection.offset(given.topic, wire.LATEST)
        started = time.perf_counter()
        window = given.in_flight or max(IN_FLIGHT_BYTES_MAX // len(request), 2)
        total = max(given.bytes // each_bytes, 1)
        sent = fill(connection, request, given.topic, total, window, given.seconds)
        took_s = time.perf_counter() - started
        stored = connection.offset(given.topic, wire.LATEST) - before
    wanted = sent * given.batch_records * given.batches
    if stored != wanted:
        raise SystemExit(f"{wanted} records were sent, the log grew by {stored}")
    options.report(bytes_per_s=sent * each_bytes / took_s, requests_per_s=sent / took_s, seconds=took_s, records=stored)


def fill(connection: wire.Connection, request: bytes, topic: str, total: int, window: int, seconds: float) -> int:
    """Send until so many requests are answered or the time is up; how many were."""
    at_once = request * max(min(window // 2, 65_536 // len(request)), 1)
    step, answers = len(at_once) // len(request), wire.ProduceAnswers(connection, topic)
    total -= total % step
    sent = answered = 0
    started = shown = time.monotonic()
    while answered < sent or sent < total:
        while sent < total and sent - answered <= window - step:
            connection.send(at_once)
            sent += step
        answered += answers.receive()
        now = time.monotonic()
        if now - started > seconds:
            total = sent
        if now - shown > PROGRESS_EVERY_S and sys.stderr.isatty():
            print(f"\r  {topic}: {sent * len(request) >> 20:,} MB", end="", file=sys.stderr, flush=True)
            shown = now
    return sent


if __name__ == "__main__":
    main()
