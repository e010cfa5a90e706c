"""How a pipeline is shown: in place on a terminal, line by line elsewhere, not at all when it shall be quiet."""

import io

from millstream.cli.pipeline.display import Terminal
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.reports import Batch


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def progress_of(*queries: str) -> Progress:
    progress = Progress()
    for query in queries:
        progress.add(Batch(query, 0, 100, 10, 0, 5, 0, 0))
    return progress


LINE = "a  100 rows/s in  10 out  lag 0  batch 5 ms"
CLEAR = "\r\x1b[K"


def test_on_a_terminal_one_line_stays_below_what_happens() -> None:
    screen = Screen()
    terminal = Terminal("p", every_s=10.0, quiet=False, out=screen)
    assert terminal.every_s == 1.0
    terminal.show(progress_of("a"), 1.0)
    terminal.say("it fell")
    terminal.done()
    assert screen.getvalue() == f"{CLEAR}{LINE}{CLEAR}p: it fell\n{LINE}\n"


def test_elsewhere_each_query_has_its_line_now_and_then() -> None:
    file = io.StringIO()
    terminal = Terminal("p", every_s=10.0, quiet=False, out=file)
    assert terminal.every_s == 10.0
    terminal.show(progress_of("a", "b"), 1.0)
    terminal.done()
    assert file.getvalue() == f"{LINE}\n{LINE.replace('a', 'b', 1)}\n"


def test_quiet_leaves_only_what_the_pipeline_itself_writes_to_standard_error() -> None:
    screen = Screen()
    terminal = Terminal("p", every_s=10.0, quiet=True, out=screen)
    terminal.show(progress_of("a"), 1.0)
    terminal.say("it fell")
    terminal.error("a traceback")
    terminal.done()
    assert screen.getvalue() == "a traceback\n"
