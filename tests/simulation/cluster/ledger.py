"""What everybody was told and has seen, held against each other at once."""

import hashlib
from collections import Counter
from collections.abc import Callable

Partition = tuple[str, int]


class Broken(AssertionError):
    """Something that must never happen has happened."""


class Ledger:
    """The history of one simulated life: acknowledgements, sightings, faults, and a digest of it all."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()
        #: What a record is for good: it was acknowledged by all in sync, or shown to a consumer.
        self._settled: dict[Partition, dict[int, bytes]] = {}
        self.acknowledged: dict[Partition, dict[int, bytes]] = {}
        self._digest = hashlib.sha256()
        self.broken: Broken | None = None

    @property
    def digest(self) -> str:
        """Two lives with the same one went the same way."""
        return self._digest.hexdigest()[:16]

    def fault(self, kind: str, detail: str = "") -> None:
        """Something was done to the cluster."""
        self.counts[kind] += 1
        self.remark(f"{kind} {detail}".rstrip())

    def remark(self, text: str) -> None:
        """Something worth a line of the trace."""
        line = f"{self._now_s():9.3f}  {text}"
        self.faults.append(line)
        self._digest.update(line.encode())

    def acknowledge(self, partition: Partition, offset: int, value: bytes) -> None:
        """A producer was told that every in-sync replica has its record."""
        self.counts["acknowledged records"] += 1
        self.acknowledged.setdefault(partition, {})[offset] = value
        self._settle(partition, offset, value, "acknowledged")

    def see(self, partition: Partition, offset: int, value: bytes) -> None:
        """A consumer was shown a record."""
        self.counts["seen records"] += 1
        self._settle(partition, offset, value, "seen")

    def settled(self, partition: Partition) -> dict[int, bytes]:
        """What nothing may change any more."""
        return self._settled.get(partition, {})

    def violate(self, text: str) -> Broken:
        """Note what must not be; the first is what counts.  To be raised where that ends something."""
        if self.broken is None:
            self.broken = Broken(f"at {self._now_s():.3f} s: {text}")
            self.remark(f"BROKEN {text}")
        return self.broken

    def _settle(self, partition: Partition, offset: int, value: bytes, how: str) -> None:
        self._digest.update(f"{self._now_s()} {how} {partition} {offset}".encode() + value)
        known = self._settled.setdefault(partition, {}).setdefault(offset, value)
        if known != value:
            raise self.violate(f"{partition} offset {offset} is {value!r} ({how}), and was {known!r} before")
