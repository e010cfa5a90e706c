"""Kafka's checkpoint files: a version, a count, and one entry of words per line."""

import logging
from collections.abc import Iterable, Mapping

from millstream.model.ids import TopicPartition
from millstream.storage.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"

_VERSION = "0"
_log = logging.getLogger(__name__)


class DamagedCheckpoint(ValueError):
    """A checkpoint file that does not read as one."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """A checkpoint file: a version, a count, an entry a line."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes, words: int) -> list[list[str]]:
    """The entries, each split into ``words`` words; an empty file has none."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint("it is not text") from error
    if not lines:
        return []
    if lines[0] != _VERSION:
        raise DamagedCheckpoint(f"version {lines[0]!r}, only {_VERSION!r} is known")
    entries = [line.split() for line in lines[2:]]
    if len(lines) > 1 and lines[1] != str(len(entries)):
        raise DamagedCheckpoint(f"{lines[1]!r} entries are promised, {len(entries)} are there")
    for line, entry in zip(lines[2:], entries, strict=True):
        if len(entry) != words:
            raise DamagedCheckpoint(f"malformed line {line!r}")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """A checkpoint file of an offset for each partition."""
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offsets such a file holds."""
    try:
        return {TopicPartition(topic, int(part)): int(offset) for topic, part, offset in decode_lines(data, 3)}
    except DamagedCheckpoint:
        raise
    except ValueError as error:
        raise DamagedCheckpoint(str(error)) from error


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """A checkpoint file of leader epochs and where they start."""
    return encode_lines(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """The epochs such a file holds."""
    try:
        return [(int(epoch), int(start_offset)) for epoch, start_offset in decode_lines(data, 2)]
    except DamagedCheckpoint:
        raise
    except ValueError as error:
        raise DamagedCheckpoint(str(error)) from error


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offsets in the file at ``path``; none when it is missing or, after one line of warning, damaged."""
    try:
        return decode_offsets(files.read(path))
    except FileNotFoundError:
        return {}
    except DamagedCheckpoint as damage:
        _log.warning("%s is damaged and is made anew: %s", path, damage)
        return {}
