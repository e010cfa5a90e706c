"""One record, its answer, the next record: round trips on one connection."""

import time

from bench import wire
from bench.loads import options


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--requests", type=int, required=True)
    given = parser.parse_args()
    request = wire.produce_frame(given.topic, wire.encode_batch([b"v" * options.RECORD_BYTES]))
    answer_bytes = wire.produce_answer_bytes(given.topic)
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        before = connection.offset(given.topic, wire.LATEST)
        send, receive, buffer = connection.socket.send, connection.socket.recv_into, bytearray(answer_bytes)
        started = time.perf_counter()
        for _ in range(given.requests):
            send(request)
            if receive(buffer) != answer_bytes:
                raise SystemExit("an answer came in pieces or not at all")
        took_s = time.perf_counter() - started
        stored = connection.offset(given.topic, wire.LATEST) - before
    if stored != given.requests:
        raise SystemExit(f"{given.requests} records were sent, the log grew by {stored}")
    options.report(requests_per_s=given.requests / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
