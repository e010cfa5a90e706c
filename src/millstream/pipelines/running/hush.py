"""What a process on Spark writes to standard error, without what means nothing."""

#: What Java and Spark say at each start, and nobody needs to know.
NOISE = ("WARNING: Using incubator modules", "Setting default log level to", "To adjust logging level use")
_TRACEBACK = "Traceback (most recent call last):"
#: Where PySpark's workers are forked.  Each that Spark lets go says so by a traceback that ends there.
_DAEMON = '/pyspark/daemon.py"'
#: How the lines between a traceback's places begin.
_CODE = "    "
_CODE = "    "
_LET_GO = ("BrokenPipeError: ", "ConnectionResetError: ")


class Hush:
    """Lines in, lines out; the beginning of a traceback is held until it is known where it leads."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._is_daemon_s = False

    def passed(self, line: str) -> list[str]:
        """The lines that are worth hearing now."""
        if line.startswith(NOISE):
            return []
        if _DAEMON in line:
            self._held, self._is_daemon_s = [], True
            return []
        if self._is_daemon_s and line.startswith(_CODE):
            return []
        if self._is_daemon_s and line.startswith((_CODE, *_LET_GO)):
            return []
        if line == _TRACEBACK:
            self._held.append(line)
            return []
        held, self._held, self._is_daemon_s = self._held, [], False
        return [*held, line]
