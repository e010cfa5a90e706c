"""Requests of one record each, many in flight on one connection: what a request costs the server."""

import time

from bench import wire
from bench.loads import options

AT_ONCE = 64
IN_FLIGHT_MAX = 256


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--requests", type=int, required=True)
    given = parser.parse_args()
    request = wire.produce_frame(given.topic, wire.encode_batch([b"v" * options.RECORD_BYTES]))
    requests, answer_bytes = request * AT_ONCE, wire.produce_answer_bytes(given.topic)
    total = given.requests - given.requests % AT_ONCE
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        before = connection.offset(given.topic, wire.LATEST)
        buffer = memoryview(bytearray(1 << 18))
        sent = got_bytes = 0
        started = time.perf_counter()
        while got_bytes < total * answer_bytes:
            while sent < total and sent - got_bytes // answer_bytes <= IN_FLIGHT_MAX - AT_ONCE:
                connection.send(requests)
                sent += AT_ONCE
            count = connection.socket.recv_into(buffer)
            if not count:
                raise SystemExit("the server closed the connection")
            got_bytes += count
        took_s = time.perf_counter() - started
        stored = connection.offset(given.topic, wire.LATEST) - before
    if stored != total:
        raise SystemExit(f"{total} records were sent, the log grew by {stored}")
    options.report(requests_per_s=total / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
