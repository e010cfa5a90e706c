"""One record, its answer, the next record: round trips on one connection."""

import itertools
import time

from bench import wire
from bench.loads import options


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--acks", type=int, default=1)
    given = parser.parse_args()
    request = wire.produce_frame(given.topic, wire.encode_batch([b"v" * options.RECORD_BYTES]), acks=given.acks)
    answer_bytes = wire.produce_answer_bytes(given.topic)
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        before = connection.offset(given.topic, wire.LATEST)
        send, receive, buffer = connection.socket.send, connection.socket.recv_into, bytearray(answer_bytes)
        ends = [time.perf_counter()]
        for _ in range(given.requests):
            send(request)
            if receive(buffer) != answer_bytes:
                raise SystemExit("an answer came in pieces or not at all")
            ends.append(time.perf_counter())
        stored = connection.offset(given.topic, wire.LATEST) - before
    if stored != given.requests:
        raise SystemExit(f"{given.requests} records were sent, the log grew by {stored}")
    took_s = ends[-1] - ends[0]
    times_us = sorted((after - before) * 1e6 for before, after in itertools.pairwise(ends))
    p50_us = options.percentile(times_us, 0.5)
    options.report(requests_per_s=given.requests / took_s, p50_us=p50_us, seconds=took_s)


if __name__ == "__main__":
    main()
