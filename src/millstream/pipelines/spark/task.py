"""What one task reads, and how: everything a worker is told."""

from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from millstream.pipelines.spark.arrow import Decoder
from millstream.pipelines.spark.options import SourceOptions
from millstream.pipelines.spark.origin import Aborted
from millstream.pipelines.spark.planning import Range


class Task(InputPartition):
    """A range of one partition; ``aborted`` for those who read files, where nobody else says it."""

    def __init__(self, piece: Range, options: SourceOptions, aborted: Sequence[Aborted] = ()) -> None:
        self.range = piece
        self.options = options
        self.aborted = list(aborted)

    def __repr__(self) -> str:
        return f"{self.range.partition} from {self.range.start} to {self.range.stop}"

    def decoder(self) -> Decoder:
        """What turns the range's batches into Arrow."""
        return Decoder(
            self.range.partition,
            self.range.start,
            self.range.stop,
            with_headers=self.options.includes_headers,
            checks_crcs=self.options.checks_crcs,
        )


class Pack(InputPartition):
    """Several small ranges, read by one task."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = list(tasks)
