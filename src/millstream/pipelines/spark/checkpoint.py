"""Spark's checkpoints, as far as they say whose they are."""

import json
import os


def query_id(location: str) -> str | None:
    """The id of the query whose checkpoint is at ``location``; None where there is none, or not on this machine."""
    path = location.removeprefix("file:")
    path = path.removeprefix("//") if path != location else path
    if not path or "://" in path:
        return None
    try:
        with open(os.path.join(path, "metadata"), encoding="utf-8") as file:
            return str(json.load(file)["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
