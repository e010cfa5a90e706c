"""Frames of real clients, damaged at random: the broker neither falls nor hangs nor grows, and goes on serving."""

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.broker_process import BrokerProcess

TESTS = Path(__file__).parent.parent
FRAMES = TESTS / "compatibility" / "frames"
#: Requests to coordinators: a client, an API, a version and the frame in hex on each line.
COORDINATORS = TESTS / "unit" / "protocol" / "coordinators.txt"
#: ApiVersions v0 with no client id: the question every broker answers, asked after each damaged frame.
PROBE_ID = 0x5EED
PROBE = struct.pack(">ihhih", 10, 18, 0, PROBE_ID, -1)
#: Values that lengths, counts, versions and keys are most likely to be mishandled at.
EDGES = [-1, -2, 0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, -(2**31), 2**30, 10**6]
ANSWER_TIMEOUT_S = 10.0
#: How long a request may wait that is allowed to: Fetch for records, JoinGroup and SyncGroup for other members.
PATIENCE_S = 0.2
WAITING = {struct.pack(">h", key) for key in (1, 11, 14)}
#: Requests that damage may make large: CreateTopics, DeleteTopics, CreatePartitions.
LARGE = {struct.pack(">h", key) for key in (19, 20, 37)}
#: Growth while caches, buffers and topics made by lucky frames settle; a leak of a frame each would be far above.
GROWTH_MB_MAX = 64


def mutated(rng: random.Random, frames: list[bytes]) -> bytes:
    """One recorded request with up to eight things wrong with it."""
    frame = bytearray(rng.choice(frames))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(frame)) if frame else 0
        kind = rng.randrange(7)
        if kind == 0 and frame:
            frame[at] = rng.randrange(256)
        elif kind == 1 and frame:
            frame[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            width = rng.choice((1, 2, 4, 8))
            edge = rng.choice(EDGES) % (1 << (8 * width))
            frame[at : at + width] = edge.to_bytes(width, "big")
        elif kind == 3:
            del frame[at : at + rng.randrange(1, 9)]
        elif kind == 4:
            frame[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 5:
            del frame[at:]
        else:
            other = rng.choice(frames)
            frame[at:] = other[rng.randrange(len(other)) :]
    return bytes(frame)


def bounded(frame: bytes) -> bytes:
    """Spare the disk: a damaged CreateTopics or Metadata may still ask for thousands of partitions."""
    return frame[:4000]


class Client:
    """A connection that is made anew whenever the broker has closed it."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._place = (host, int(port))
        self._socket: socket.socket | None = None

    def send(self, frame: bytes) -> bool:
        """Send a frame and the probe; whether the connection lived to answer the probe."""
        sock = self._connected()
        may_wait = frame[:2] in WAITING
        sock.settimeout(PATIENCE_S if may_wait else ANSWER_TIMEOUT_S)
        try:
            sock.sendall(struct.pack(">i", len(frame)) + frame + PROBE)
            return any(correlation_id == PROBE_ID for correlation_id in self._answers(sock))
        except ConnectionError:
            self.close()
            return False
        except TimeoutError:
            assert may_wait or frame[:2] in LARGE, f"no answer within {ANSWER_TIMEOUT_S:.0f} s to {frame.hex()}"
            self.close()  # Damage may ask for hours or thousands of partitions, and a broker that obeys is right.
            return False

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._place, timeout=ANSWER_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def _answers(self, sock: socket.socket) -> Iterator[int]:
        """Correlation ids of the answers, up to the probe's."""
        while True:
            (length,) = struct.unpack(">i", self._exactly(sock, 4))
            (correlation_id,) = struct.unpack_from(">i", self._exactly(sock, length))
            yield correlation_id
            if correlation_id == PROBE_ID:
                return

    def _exactly(self, sock: socket.socket, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = sock.recv(count - len(data))
            if not piece:
                raise ConnectionResetError
            data += piece
        return bytes(data)


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the broker is gone")


@pytest.mark.parametrize("count", [3_000, pytest.param(200_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_damaged_requests_hurt_nobody_else(tmp_path: Path, count: int) -> None:
    frames = [path.read_bytes() for path in sorted(FRAMES.glob("*.bin"))]
    frames += [bytes.fromhex(line.split()[-1]) for line in COORDINATORS.read_text().splitlines()]
    assert len(frames) > 100
    rng = random.Random(20)
    settings = {"auto.create.topics.enable": "false", "log.segment.bytes": "1048576", "max.connections.per.ip": "50"}
    with BrokerProcess(tmp_path, settings=settings) as broker:
        client, bystander = Client(broker.address), Client(broker.address)
        survived = warm_mb = 0.0
        for number in range(count):
            survived += client.send(bounded(mutated(rng, frames)))
            if number % 500 == 0:
                assert bystander.send(PROBE[4:]), "a damaged frame of one client cut off another"
            if number == count // 10:
                warm_mb = resident_mb(broker.pid)
        assert broker.is_running
        grown_mb = resident_mb(broker.pid) - warm_mb
        assert grown_mb < GROWTH_MB_MAX, f"{grown_mb:.0f} MB more than after a tenth of the frames"
        # Both ends of the matter were seen: frames that were answered, and frames that closed the connection.
        assert 0 < survived < count
        assert "Traceback" not in broker.output, broker.output[-4000:]
        client.close()
        bystander.close()
