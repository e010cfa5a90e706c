"""How a compacted segment takes the place of the ones it was made of, whatever moment the machine stops at.

1. The worker writes X.log.cleaned, X.index.cleaned and X.timeindex.cleaned (and X.txnindex.cleaned, where aborted
   transactions are left), flushes them and syncs their names.
2. The loop renames the indexes and then the log to .swap. With the log's rename it is decided.
3. The loop renames what is replaced to .deleted, then the indexes and at last the log to their own names.

Renames in one folder reach the disk in their order (file systems journal them so), hence no sync between them.
A compacted segment ends at the offset where the last one it replaces ended, so the range it stands for can be read
from the file itself, by us and by Apache Kafka. At open ``finish_swaps`` goes on from wherever it stopped: with a
.log.swap there the rest is carried out, without it nothing has happened yet.
"""

from collections.abc import Iterable, Sequence

from millstream.storage.aborted_index import ABORTED_INDEX_SUFFIX
from millstream.storage.files import Files
from millstream.storage.walk import STRIDE_BYTES, places

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
LOG = ".log"
INDEXES = (".index", ".timeindex")
#: Only where there is something to put into it.
ABORTED_INDEX = ABORTED_INDEX_SUFFIX
#: The log last, in every step.
SEGMENT_FILES = (ABORTED_INDEX, *INDEXES, LOG)


def segment_path(folder: str, base_offset: int, kind: str) -> str:
    """A segment's file, named as Kafka names it: ``.log``, ``.index.cleaned`` and so on."""
    return f"{folder}/{base_offset:020d}{kind}"


def swap_in(files: Files, folder: str, base_offset: int, replaced: Iterable[int]) -> list[str]:
    """Put a cleaned segment in place of those with the bases ``replaced``; the ``.deleted`` files to remove later.

    Renames only, so it is quick enough for the loop. Whoever holds an old file open goes on reading it.
    """
    for kind in SEGMENT_FILES:
        _rename(files, segment_path(folder, base_offset, kind), CLEANED, SWAP)
    deleted = []
    for old in replaced:
        for kind in SEGMENT_FILES:  # Renamed even where it would be replaced: freeing it takes long.
            path = segment_path(folder, old, kind)
            if files.exists(path):
                files.rename(path, path + DELETED)
                deleted.append(path + DELETED)
    for kind in SEGMENT_FILES:
        _rename(files, segment_path(folder, base_offset, kind), SWAP, "")
    return deleted


def discard_cleaned(files: Files, folder: str, base_offset: int) -> None:
    """Remove a cleaned segment that shall not take its place after all."""
    for kind in SEGMENT_FILES:
        files.remove(segment_path(folder, base_offset, kind + CLEANED))


def finish_swaps(files: Files, folder: str) -> None:
    """Bring a folder to where every segment is whole: call this before anything else reads it.

    Does nothing to a folder that holds no half-done compaction, and may itself be stopped and called again.
    """
    names = files.list(folder)
    if not any(name.endswith((CLEANED, SWAP)) for name in names):
        return
    decided = _bases(names, LOG + SWAP)
    for name in names:
        if name.endswith((CLEANED, SWAP)) and not name.startswith(tuple(f"{base:020d}." for base in decided)):
            files.remove(f"{folder}/{name}")
    for base_offset in decided:
        end_offset = _end_offset(files, segment_path(folder, base_offset, LOG + SWAP))
        replaced = [old for old in _bases(names, LOG) if base_offset <= old < end_offset]
        for path in swap_in(files, folder, base_offset, replaced):
            files.remove(path)
    files.sync_folder(folder)


def _rename(files: Files, path: str, old_ending: str, new_ending: str) -> None:
    """Rename if it has not happened before a stop."""
    if files.exists(path + old_ending):
        files.rename(path + old_ending, path + new_ending)


def _bases(names: Sequence[str], ending: str) -> list[int]:
    return [int(stem) for name in names if name.endswith(ending) and (stem := name[: -len(ending)]).isdigit()]


def _end_offset(files: Files, path: str) -> int:
    """The offset after the last batch of a whole log file."""
    file = files.open(path)
    try:
        last_offset = -1
        for place in places(file, 0, file.size, STRIDE_BYTES):
            last_offset = place.last_offset
        return last_offset + 1
    finally:
        file.close()
