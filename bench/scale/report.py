"""A scale bench's lines: what was measured, what it is held to, and whether it kept it."""

from dataclasses import dataclass, field


@dataclass
class Report:
    """Lines in the order they were added, printed as a Markdown table."""

    lines: list[tuple[str, str, str, str]] = field(default_factory=list)

    def note(self, what: str, figure: str) -> None:
        """A figure that is held to nothing by itself."""
        self.lines.append((what, figure, "", ""))

    def hold(self, what: str, figure: str, target: str, *, kept: bool) -> None:
        self.lines.append((what, figure, target, "met" if kept else "**missed**"))

    def render(self) -> str:
        rows = ["| line | figure | target | |", "|-|-|-|-|"]
        return "\n".join(rows + ["| " + " | ".join(line) + " |" for line in self.lines])


def millis(microseconds: float) -> str:
    return f"{microseconds / 1_000:.2f} ms"
