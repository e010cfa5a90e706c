"""A broker with a planted bug, to show that the checker can find one: python -m … BUG serve …"""

import sys
from collections.abc import Callable
from typing import Any

from millstream.cli.main import main
from millstream.storage.producer_state import ProducerStates


def skip_sequence_check() -> None:
    """Take every batch as new, also one that was sent again because its answer was lost."""

    def check(self: ProducerStates, *_: Any, **__: Any) -> None:
        return None

    ProducerStates.check = check  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {"skip-sequence-check": skip_sequence_check}

if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
