"""One supervisor to a checkpoint: two that run the same pipeline would only push each other aside."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from millstream.pipelines.running.failures import PipelineError

NAME = ".millstream-pipeline.lock"


@contextmanager
def held(checkpoint: str, option: str = "--checkpoint", what: str = "this pipeline") -> Iterator[None]:
    """Hold a checkpoint folder; PipelineError when another process does. A URL is not watched."""
    if "://" in checkpoint:
        yield
        return
    try:
        os.makedirs(checkpoint, exist_ok=True)
        file = os.open(os.path.join(checkpoint, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise PipelineError(f"{option} {checkpoint}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 32).decode(errors="replace").strip() or "another"
            raise PipelineError(f"{option} {checkpoint}: process {owner} runs {what} already") from None
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)
