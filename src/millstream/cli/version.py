"""Print the version of Millstream."""

import argparse

from millstream import __version__


def configure(parser: argparse.ArgumentParser) -> None:
    del parser  # It takes no options.


def run(args: argparse.Namespace) -> int:
    del args
    print(f"millstream {__version__}")
    return 0
