"""Which worker runs which files where pytest has several.

A Spark is several busy threads and takes minutes to become fast, so few workers have one, each from the start to the
end; the others do meanwhile what needs none. The machine is then never full of Sparks, and no test waits for long.
"""

from typing import Any

from xdist.scheduler import LoadFileScheduling

#: The folder whose tests run Spark, and how many workers take them while there is anything else to do.
SPARK_TESTS = "tests/pipelines/"
SPARK_WORKERS = 2


class Lanes(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files in their order, those that run Spark for the first workers and the rest for the others."""

    def _assign_work_unit(self, node: Any) -> None:
        has_spark = node in self.nodes[:SPARK_WORKERS]
        fitting = (file for file in self.workqueue if file.startswith(SPARK_TESTS) == has_spark)
        if (file := next(fitting, None)) is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
