"""What a long run says of itself, beside the tables that go to standard output."""

import sys


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
