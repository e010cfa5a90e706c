"""Options that several commands share, so that they are spelled the same everywhere."""

import argparse
import os
from collections.abc import Callable, Sequence

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "MILLSTREAM_BOOTSTRAP"
DEFAULT_TIMEOUT_S = 30.0
OUTPUTS = ("table", "json", "yaml")
ISOLATIONS = {"read_uncommitted": 0, "read_committed": 1}
DEFAULT_FORMAT = r"%v\n"
#: How keys and values are printed; ``formats.ENCODINGS`` does it.
BYTE_FORMATS = ("raw", "hex", "base64")


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is and how long to wait for it: every command that talks to one has these."""
    group = add_bootstrap_options(parser)
    group.add_argument(
        "--timeout",
        dest="timeout_s",
        type=positive_seconds,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help=f"give a request up after this long (default: {DEFAULT_TIMEOUT_S:.0f})",
    )


def add_bootstrap_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Where the cluster is."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        help=f"brokers to ask first (default: ${BOOTSTRAP_VARIABLE}, the profile's, or {DEFAULT_BOOTSTRAP})",
    )
    group.add_argument("--profile", metavar="NAME", help="take the bootstrap from ~/.config/millstream/profiles.yaml")
    return group


def add_output_option(parser: argparse.ArgumentParser, *, short: bool = True) -> None:
    """``-o/--output``; only the long form where ``-o`` means an offset."""
    names = ("-o", "--output") if short else ("--output",)
    parser.add_argument(*names, choices=OUTPUTS, default="table", help="how to print (default: table)")


def add_setting_option(
    parser: argparse.ArgumentParser, help_text: str, names: Sequence[str] = ("-c", "--config")
) -> None:
    """Let the command take settings, as ``-c name=value``."""
    parser.add_argument(
        *names,
        dest="settings",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE",
        help=help_text,
    )


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """Let the command say how records are printed."""
    parser.add_argument("-f", "--format", default=DEFAULT_FORMAT, help=r"how to print a record (default: %%v\n)")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="json: a line of JSON for each")
    parser.add_argument("--key-format", choices=BYTE_FORMATS, default="raw")
    parser.add_argument("--value-format", choices=BYTE_FORMATS, default="raw")
    parser.add_argument("--null", default="", metavar="TEXT", help="print this for a null key or value")


def add_partition_options(parser: argparse.ArgumentParser) -> None:
    """Let the command say which partitions are read, and at which isolation."""
    parser.add_argument(
        "-p", "--partitions", type=partition_numbers, metavar="N[,N…]", help="only these (default: all)"
    )
    parser.add_argument(
        "--isolation",
        choices=sorted(ISOLATIONS),
        default="read_uncommitted",
        help="default: read_uncommitted, as in Kafka",
    )


def partition_numbers(text: str) -> list[int]:
    """``0,3,7`` as numbers."""
    return _numbers(text, "partitions such as 0,3,7")


def broker_numbers(text: str) -> list[int]:
    """``1,2,3`` as the ids of brokers."""
    return _numbers(text, "brokers' ids such as 1,2,3")


def _numbers(text: str, what: str) -> list[int]:
    pieces = text.split(",")
    if not all(piece.strip().isdigit() for piece in pieces):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of {what}")
    return sorted({int(piece) for piece in pieces})


def topic_choice(text: str) -> tuple[str, list[int] | None]:
    """``orders`` or ``orders:0,3`` as a topic and its partitions; None for all of them."""
    name, colon, numbers = text.partition(":")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not a topic, such as orders or orders:0,3")
    return name, partition_numbers(numbers) if colon else None


def duration_ms(text: str) -> int:
    """``90s``, ``1.5h``, ``7d``, ``PT1H`` in milliseconds."""
    from millstream.cli.times import parse_duration_ms

    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def some_of(names: Sequence[str]) -> Callable[[str], frozenset[str]]:
    """A type that takes some of ``names``, with commas between them and in any case."""
    by_lower = {name.lower(): name for name in names}

    def chosen(text: str) -> frozenset[str]:
        for piece in text.split(","):
            if piece.strip().lower() not in by_lower:
                raise argparse.ArgumentTypeError(f"{piece.strip()!r} is none of {', '.join(names)}")
        return frozenset(by_lower[piece.strip().lower()] for piece in text.split(","))

    return chosen


def bootstrap_of(args: argparse.Namespace) -> str:
    """The bootstrap to use: the option, then the profile it names, then the environment, then a default profile."""
    if args.bootstrap:
        return str(args.bootstrap)
    if args.profile:
        from millstream.cli.profiles import profile_bootstrap

        return profile_bootstrap(args.profile)
    return os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP


def setting(text: str) -> tuple[str, str]:
    """``name=value`` as a pair."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def positive(text: str) -> int:
    """A whole number of at least 1; ``k``, ``M`` and ``G`` after it multiply by a thousand each."""
    number = _scaled(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def not_negative(text: str) -> int:
    """A whole number of at least 0, with the same multipliers."""
    number = _scaled(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return number


def positive_seconds(text: str) -> float:
    """A time above 0, as ``5`` or ``0.5s``."""
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


_SCALES = {"k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def _scaled(text: str) -> int:
    digits, scale = text.strip(), 1
    if digits and digits[-1].lower() in _SCALES:
        digits, scale = digits[:-1], _SCALES[digits[-1].lower()]
    try:
        return int(digits) * scale
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number; k, M or G may follow one, as in 50M"
        ) from None


def port(text: str) -> int:
    """A TCP port, or 0 for any that is free."""
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)
