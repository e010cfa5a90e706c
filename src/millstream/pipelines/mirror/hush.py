"""What Spark's Python workers say when the JVM has hung up first: it does as it likes, and nobody needs to know."""

_BEGIN = "Traceback (most recent call last):"
_PLACE = "pyspark/daemon.py"
_END = "BrokenPipeError"


class Hush:
    """Lines of standard error, without such a traceback. Pure."""

    def __init__(self) -> None:
        self._held: list[str] = []

    def heard(self, line: str) -> list[str]:
        """The lines to pass on now: none while it may be one of those."""
        if line == _BEGIN:
            held, self._held = self._held, [line]
            return held
        if not self._held:
            return [line]
        self._held.append(line)
        if line.startswith(" "):
            return []
        held, self._held = self._held, []
        is_noise = line.startswith(_END) and all(_PLACE in each for each in held[1:-1] if "File" in each)
        return [] if is_noise else held
