"""A checkpoint's own files, read without Spark: whose it is, and how far its batches were committed."""

import json
import os
from typing import Any

FOLDER = "checkpoint"


def folder_of(generation: str) -> str:
    """Where a generation's checkpoint is."""
    return os.path.join(generation, FOLDER)


def query_id(generation: str) -> str | None:
    """The id that Spark gave the query; None where it never began."""
    try:
        with open(os.path.join(folder_of(generation), "metadata"), encoding="utf-8") as file:
            return str(json.load(file)["id"])
    except (FileNotFoundError, ValueError):
        return None


def committed(generation: str) -> dict[str, Any] | None:
    """How far the last batch went that was committed; None where none was."""
    folder = folder_of(generation)
    try:
        numbers = [int(name) for name in os.listdir(os.path.join(folder, "commits")) if name.isdigit()]
    except FileNotFoundError:
        return None
    if not numbers:
        return None
    with open(os.path.join(folder, "offsets", str(max(numbers))), encoding="utf-8") as file:
        # A version, what Spark notes of the batch, and a line for each source, of which there is one.
        lines = file.read().splitlines()
    found = json.loads(lines[2])
    assert isinstance(found, dict), f"a source's offsets, not {lines[2]}"
    return found
