"""Folders of a lake, on a disk or in a bucket."""

import os
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs


class Store:
    """A folder and what is below it; paths are relative to it, with slashes."""

    def __init__(self, url: str) -> None:
        self.is_local = Store.is_here(url)
        #: As others are told it.
        self.location = os.path.abspath(url.removeprefix("file://")) if self.is_local else url.rstrip("/")
        if self.is_local:
            self._files = fs.SubTreeFileSystem(self.location, fs.LocalFileSystem())
        else:
            files, root = fs.FileSystem.from_uri(self.location)
            self._files = fs.SubTreeFileSystem(root, files)

    @staticmethod
    def is_here(url: str) -> bool:
        """Whether it is a folder of this machine's."""
        return url.startswith("file://") or "://" not in url

    @property
    def uri(self) -> str:
        """Its location with a scheme."""
        return f"file://{self.location}" if self.is_local else self.location

    def below(self, *names: str) -> "Store":
        """A folder in it."""
        return Store("/".join([self.location, *names]))

    def create(self, path: str) -> Any:
        """A new file to write to, its folders made on the way."""
        if "/" in path:
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
        return self._files.open_output_stream(path)

    def put(self, path: str, data: bytes) -> None:
        """A file with this in it, whole or not there at all; in place of one that was there."""
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/.{name}.{uuid4().hex}" if folder else f".{name}.{uuid4().hex}"
        with self.create(beside) as stream:
            stream.write(data)
        self._files.move(beside, path)

    def get(self, path: str) -> bytes | None:
        """What is in a file; None when it is not there."""
        try:
            with self._files.open_input_file(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def size(self, path: str) -> int | None:
        """A file's bytes; None when it is not there."""
        found = self._files.get_file_info(path)
        return found.size if found.type == fs.FileType.File else None

    def move(self, source: str, target: str) -> None:
        """Rename a file, the folders of its new name made on the way."""
        if "/" in target:
            self._files.create_dir(target.rpartition("/")[0], recursive=True)
        self._files.move(source, target)

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            self._files.delete_file(path)

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        with suppress(FileNotFoundError):
            self._files.delete_dir(path)

    def names(self, path: str) -> list[str]:
        """What lies in a folder, files and folders; nothing where there is none."""
        found = self._files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return sorted(info.base_name for info in found)


def complaint(url: str) -> str:
    """Why nothing can be written there; empty when it seems to be possible."""
    try:
        store = Store(url)
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"{url!r} is no place to write to: {error}."
    above = store.location
    while store.is_local and not os.path.lexists(above):
        above = os.path.dirname(above)
    if store.is_local and not (os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK)):
        return f"{url!r}: {above} is no folder that can be written to."
    return ""
