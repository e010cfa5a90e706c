"""kcat: librdkafka's command line, one process for each call."""

from __future__ import annotations

import json
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from itertools import groupby

from confluent_kafka import KafkaError

from tests.compatibility.drivers.base import (
    ALL_ACKS,
    EARLIEST,
    LATEST,
    WAIT_S,
    At,
    Driver,
    Headers,
    Partition,
    Reader,
    Received,
    Record,
    Refused,
    Start,
)

#: kcat reports refusals as librdkafka's sentences; this finds the codes behind them.
CODES = {str(KafkaError(code).str()): code for code in range(1, 120)}
LOGICAL = {EARLIEST: "beginning", LATEST: "end"}
KEY_MARK, RECORD_MARK = "=>", "\n"
DELIVERED = re.compile(r"Message delivered to partition (\d+) \(offset (-?\d+)\)")


def refusal(said: str) -> Refused:
    if "ffset out of range" in said:
        return Refused(1, said)
    for sentence, code in CODES.items():
        if sentence in said:
            return Refused(code, said)
    raise AssertionError(f"kcat failed: {said}")


class KcatReader(Reader):
    """A kcat that runs until closed; a thread hands over what it prints."""

    def __init__(self, bootstrap: str, topic: str, partition: int, start: Start) -> None:
        offset = f"s@{start.timestamp_ms}" if isinstance(start, At) else LOGICAL.get(start, str(start))
        places = ["-C", "-b", bootstrap, "-t", topic, "-p", str(partition), "-o", offset]
        settings = [
            "-X",
            "auto.offset.reset=error",
            "-X",
            "topic.auto.offset.reset=error",
            "-X",
            "fetch.wait.max.ms=200",
        ]
        self._process = subprocess.Popen(
            ["kcat", *places, "-J", "-u", *settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._said: list[str] = []
        self._settled = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read_out, self._read_err)]
        for thread in self._threads:
            thread.start()
        if start == LATEST:
            assert self._settled.wait(WAIT_S), f"kcat never stood at the end: {self._said}"

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _read_err(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if "Reached end" in line:
                self._settled.set()

    def poll(self, timeout_s: float) -> list[Received]:
        try:
            lines = [self._lines.get(timeout=timeout_s)]
        except queue.Empty:
            return []
        while not self._lines.empty():
            lines.append(self._lines.get())
        if "" in lines and lines[0] == "":
            self._process.wait()
            raise refusal("".join(self._said))
        return [received(json.loads(line)) for line in lines if line]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


def received(row: dict[str, object]) -> Received:
    def raw(text: object) -> bytes | None:
        return None if text is None else str(text).encode()

    flat = row.get("headers") or []
    assert isinstance(flat, list)
    headers: Headers = tuple((str(name), raw(value)) for name, value in zip(flat[::2], flat[1::2], strict=True))
    return Received(int(str(row["offset"])), raw(row["payload"]), raw(row["key"]), headers, int(str(row["ts"])))


class KcatDriver(Driver):
    name = "kcat"
    sets_timestamps = False

    @classmethod
    def missing(cls) -> str | None:
        return None if shutil.which("kcat") else "kcat is not installed"

    def _run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["kcat", "-b", self.bootstrap, "-m", str(int(WAIT_S)), *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )
        if done.returncode or "Delivery failed" in done.stderr or "ERROR" in done.stderr:
            raise refusal(done.stderr)
        return done

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = ALL_ACKS,
        idempotent: bool = False,
    ) -> list[int]:
        settings = [f"acks={acks}", "linger.ms=500", "message.max.bytes=16000000", "message.timeout.ms=15000"]
        settings += ["enable.idempotence=true"] if idempotent else []
        common = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-Z", "-K", KEY_MARK, "-vvv"]
        offsets: list[int] = []
        for headers, alike in groupby(records, lambda record: record.headers):
            options = [part for setting in settings for part in ("-X", setting)]
            for name, value in headers:
                options += ["-H", name if value is None else f"{name}={value.decode()}"]
            done = self._run(*common, *options, given="".join(map(line, alike)))
            offsets += [int(found[2]) for found in DELIVERED.finditer(done.stderr)]
        return offsets

    def read(self, topic: str, start: Start, *, partition: int = 0) -> Reader:
        return KcatReader(self.bootstrap, topic, partition, start)

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        said = self._run("-Q", "-t", f"{topic}:{partition}:{timestamp}").stdout
        return int(said.split("offset ")[1].split()[0])

    def list_topics(self) -> set[str]:
        return {row["topic"] for row in json.loads(self._run("-L", "-J").stdout)["topics"]}

    def describe_topic(self, topic: str) -> list[Partition]:
        (found,) = json.loads(self._run("-L", "-J", "-t", topic).stdout)["topics"]
        if "error" in found:
            raise refusal(found["error"])
        return [
            Partition(
                row["partition"],
                row["leader"],
                tuple(each["id"] for each in row["replicas"]),
                tuple(each["id"] for each in row["isrs"]),
            )
            for row in sorted(found["partitions"], key=lambda row: int(row["partition"]))
        ]


def line(record: Record) -> str:
    key = "" if record.key is None else record.key.decode() + KEY_MARK
    return key + (record.value or b"").decode() + RECORD_MARK
