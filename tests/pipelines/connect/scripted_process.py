"""What plays a scripted connector: it reports as a connector's process does, and goes on where its folder says."""

import os
import sys
from pathlib import Path

from millstream.model.clock import SystemClock
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.leash import Stops
from millstream.pipelines.connect.reports import Batch, Failed, Report, Started, encode

EVERY_S = 0.02


def main() -> int:
    """Play; 0 when told to stop."""
    with open(0, "rb", buffering=0, closefd=False) as told:
        job = Job.from_line(told.readline())
    reports = int(sys.argv[-1])
    folder = Path(job.folder)
    (folder / "job.json").write_bytes(job.to_line())
    kept = folder / "number"
    number = int(kept.read_text()) if kept.exists() else 0

    def tell(report: Report) -> None:
        os.write(reports, encode(report))

    stops = Stops(SystemClock())
    stops.listen(0, job.lease_s, lambda line: tell(Failed(line, "", is_final=False)))
    is_told = stops.wait

    def batch() -> None:
        nonlocal number
        number += 1
        written = kept.with_suffix(".new")
        written.write_text(str(number))
        written.replace(kept)  # It may be killed at any moment.
        tell(Batch(number, 10, 5, topics=("lines",), lag=number))

    does = job.config["does"]
    if does == "fails":
        tell(Failed("the database is away", "Traceback: away", is_final=False))
        return 1
    if does == "breaks":
        tell(Started(int(job.config.get("failing", "1"))))
        tell(Failed("no such table", "Traceback: table" + "." * int(job.config.get("words", "0")), is_final=True))
        return 1
    if does == "hangs":
        while not is_told(60):
            pass
        return 0
    tell(Started(int(job.config.get("tasks", "1"))))
    batch()
    if does == "dies":
        sys.stderr.write("dying\n")
        os._exit(7)
    while not is_told(EVERY_S):
        batch()
    batch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
