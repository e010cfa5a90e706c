"""Batches as tests look at them."""

from collections.abc import Iterator

from millstream.model.batch import BatchHeader, Buffer, checked_header


def checked_batches(records: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch, each checked as a producer's is."""
    at = 0
    while at < len(records):
        header = checked_header(records, at)
        yield at, header
        at += header.size
