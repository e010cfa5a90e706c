"""A process's own hold on a simulated disk: once the process is dead, nothing it still tries reaches the disk."""

import errno

from millstream.storage.files import Buffer, File
from tests.simulation.files import MemoryFiles


class Mount:
    """The disk as one process sees it, until that process is killed or the power goes."""

    def __init__(self, disk: MemoryFiles) -> None:
        self._disk = disk
        self._life = disk.life

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        return self._alive(path).open(path, writable=writable, create=create)

    def exists(self, path: str) -> bool:
        return self._alive(path).exists(path)

    def list(self, path: str) -> "list[str]":
        return self._alive(path).list(path)

    def size(self, path: str) -> int:
        return self._alive(path).size(path)

    def modified_ms(self, path: str) -> int:
        return self._alive(path).modified_ms(path)

    def make_folder(self, path: str) -> None:
        self._alive(path).make_folder(path)

    def rename(self, old: str, new: str) -> None:
        self._alive(old).rename(old, new)

    def remove(self, path: str) -> None:
        self._alive(path).remove(path)

    def remove_tree(self, path: str) -> None:
        self._alive(path).remove_tree(path)

    def read(self, path: str) -> bytes:
        return self._alive(path).read(path)

    def replace(self, path: str, data: Buffer) -> None:
        self._alive(path).replace(path, data)

    def sync_folder(self, path: str) -> None:
        self._alive(path).sync_folder(path)

    def sync_volume(self, path: str) -> None:
        self._alive(path).sync_volume(path)

    def volume_bytes(self, path: str) -> tuple[int, int]:
        return self._alive(path).volume_bytes(path)

    def lock(self, path: str) -> object | None:
        return self._alive(path).lock(path)

    def boot_id(self) -> str:
        return self._disk.boot_id()

    def _alive(self, path: str) -> MemoryFiles:
        if self._life != self._disk.life:
            raise OSError(errno.EBADF, "the process that had this disk is dead", path)
        return self._disk
