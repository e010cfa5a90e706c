"""Record what real clients send, into ``frames/``: food for the fuzzer and proof of what is in the field.

    python -m tests.compatibility.record_frames

Runs every client through a proxy against Apache Kafka and keeps, for each client, API key and version, a few
requests of different sizes: ``<client>-<key>-v<version>-<n>.bin``, each one frame without its length.
"""

from __future__ import annotations

import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.compatibility.apache_kafka import ApacheKafka, free_port
from tests.compatibility.conftest import wait_for_leaders
from tests.compatibility.drivers import DRIVERS, Driver
from tests.compatibility.drivers.base import ALL_ACKS, CODECS, EARLIEST, LATEST, LEADER_ACKS, NO_ACKS, At, Record

FOLDER = Path(__file__).parent / "frames"
FRAME_BYTES_MAX = 4096
#: Kept of one client, key and version; Produce has the most to show, a codec at a time.
VARIANTS_MAX = 8


class Recorder:
    """A proxy that keeps the requests passing through it under the name of the client at work."""

    def __init__(self, target_port: int, port: int) -> None:
        self.client = ""
        self.frames: dict[tuple[str, int, int], dict[int, bytes]] = {}
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._target_port))
            except ConnectionRefusedError:  # The broker has stopped before its last client.
                near.close()
                continue
            threading.Thread(target=self._pass_on, args=(near, far, self._keep(self.client)), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(far, near, lambda part: None), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, see: Callable[[bytes], None]) -> None:
        try:
            while part := source.recv(1 << 16):
                see(part)
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()

    def _keep(self, client: str) -> Callable[[bytes], None]:
        unread = bytearray()

        def see(part: bytes) -> None:
            unread.extend(part)
            while len(unread) >= 4 and len(unread) >= 4 + (length := struct.unpack_from(">i", unread)[0]):
                frame = bytes(unread[4 : 4 + length])
                del unread[: 4 + length]
                key, version = struct.unpack_from(">hh", frame)
                kept = self.frames.setdefault((client, key, version), {})
                if length <= FRAME_BYTES_MAX and len(kept) < VARIANTS_MAX:
                    kept.setdefault(length, frame)

        return see

    def save(self) -> None:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        for (client, key, version), kept in self.frames.items():
            for index, frame in enumerate(kept.values()):
                (FOLDER / f"{client}-{key}-v{version}-{index}.bin").write_bytes(frame)


def exercise(driver: Driver, seed: Driver) -> None:
    """Everything this client can do, once."""
    topic = f"frames-{driver.name}"
    maker = driver if driver.can("create_topic") else seed
    maker.create_topic(topic, partitions=2, configs={"retention.ms": "86400000", "segment.bytes": "1048576"})
    wait_for_leaders(maker, topic, 2)
    headers = (("trace", b"1"), ("empty", b""))
    rows = [Record(b"value %d " % i * 3, key=b"k%d" % i, headers=headers) for i in range(3)]
    driver.produce(topic, [Record(b"plain")])
    for codec in CODECS[1:]:
        driver.produce(topic, rows, codec=codec)
    for acks in (NO_ACKS, LEADER_ACKS, ALL_ACKS):
        driver.produce(topic, [Record(b"x" * (acks + 2), key=b"k")], acks=acks, partition=1)
    driver.produce(topic, rows, idempotent=True)
    with driver.read(topic, EARLIEST) as reader:
        reader.take(16)
        reader.poll(0.5)
    with driver.read(topic, At(int(time.time() * 1000) - 60_000)) as reader:
        reader.take(16)
    for place in (EARLIEST, LATEST, int(time.time() * 1000) - 60_000):
        driver.list_offset(topic, place)
    driver.list_topics()
    driver.describe_topic(topic)
    later: dict[str, Callable[[], object]] = {
        "max_timestamp_offset": lambda: driver.max_timestamp_offset(topic),
        "describe_cluster": driver.describe_cluster,
        "describe_log_dirs": lambda: driver.describe_log_dirs(topic),
        "describe_configs": lambda: driver.describe_configs(topic),
        "describe_broker_configs": lambda: driver.describe_broker_configs(1),
        "alter_configs": lambda: driver.alter_configs(topic, {"retention.ms": "5", "segment.bytes": None}),
        "replace_configs": lambda: driver.replace_configs(topic, {"retention.ms": "86400000"}),
        "create_partitions": lambda: driver.create_partitions(topic, 3),
        "delete_records": lambda: driver.delete_records(topic, 2),
        "delete_topic": lambda: driver.delete_topic(topic),
    }
    for call, run in later.items():
        if driver.can(call):
            run()


def main() -> None:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with ApacheKafka(Path(folder) / "data", settings=settings) as kafka:
            recorder = Recorder(kafka.port, port)
            recorder.client = "confluent"
            with DRIVERS["confluent"](f"127.0.0.1:{port}") as seed:
                seed.create_topic("frames")  # Its connections stand before another client's name is on the door.
                for name, kind in DRIVERS.items():
                    assert kind.missing() is None, kind.missing()
                    recorder.client = name
                    with kind(f"127.0.0.1:{port}") as driver:
                        exercise(driver, seed)
            recorder.save()


if __name__ == "__main__":
    main()
