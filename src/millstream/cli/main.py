"""The ``millstream`` command: finds the command asked for, loads it alone, runs it, and says what went wrong.

Exit codes: 0 done; 1 the work failed; 2 the command line is wrong; 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from millstream.cli.commands import BY_WORDS, COMMANDS, GROUPS, Command
from millstream.cli.failure import CommandFailed, explain

DONE = 0
FAILED = 1
MISUSED = 2
INTERRUPTED = 130

EPILOG = "Run `millstream COMMAND --help` for a command's options."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; nothing escapes as a traceback but our own bugs."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left, as in `| head`. Python must not complain about it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except CommandFailed as failure:
        print(f"millstream: {failure}", file=sys.stderr)
        return failure.exit_code
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print(f"millstream: {sentence}", file=sys.stderr)
        return FAILED
    return code


def _dispatch(arguments: list[str]) -> int:
    given, words = _leading_options(arguments)
    if not words:
        print(_overview())
        return DONE
    if words[0] in ("-h", "--help", "help"):
        return _help_about([word for word in words[1:] if not word.startswith("-")])
    if words[0] in ("-V", "--version"):
        words = ["version"]
    command, rest = _find(words)
    if command is None:
        return DONE  # A group's overview was asked for and printed.
    module = import_module(command.module)
    parser = argparse.ArgumentParser(
        prog=f"millstream {command.words}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    if command.online:
        from millstream.cli.options import add_cluster_options

        add_cluster_options(parser)
    args = _parsed(parser, _joined(rest, getattr(module, "SIGNED_OPTIONS", ())), given)
    if not command.online:
        return int(module.run(args))
    from millstream.cli.session import run_online

    return run_online(module.run, args)


def _parsed(parser: argparse.ArgumentParser, arguments: list[str], given: argparse.Namespace) -> argparse.Namespace:
    """The arguments, or the end of the command with the option that a misspelt one may have meant."""
    # Intermixed: a file may stand after options as well as before them.
    args, left = parser.parse_known_intermixed_args(arguments, namespace=given)
    if left:
        known = [name.removeprefix("--") for name in parser._option_string_actions if name.startswith("--")]
        words = (word.removeprefix("--").partition("=")[0] for word in left if word.startswith("--"))
        meant = next((close for word in words if (close := _closest(word, known))), None)
        parser.error(f"unrecognized arguments: {' '.join(left)}" + (f"; did you mean --{meant}?" if meant else ""))
    return args


def _leading_options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Options that belong to every command may also stand before it: ``millstream -b host:9092 topic list``."""
    given = argparse.Namespace()
    names = {"-b": "bootstrap", "--bootstrap": "bootstrap", "--profile": "profile"}
    at = 0
    while at < len(arguments):
        name, equals, value = arguments[at].partition("=")
        if name not in names:
            break
        if not equals:
            if at + 1 == len(arguments):
                raise CommandFailed(f"{name} needs a value", exit_code=MISUSED)
            at += 1
            value = arguments[at]
        setattr(given, names[name], value)
        at += 1
    return given, arguments[at:]


def _find(words: list[str]) -> tuple[Command | None, list[str]]:
    """The command that the words begin with and the arguments left; None when a group's overview was printed."""
    noun = words[0]
    if noun in GROUPS:
        if len(words) == 1 or words[1] in ("-h", "--help", "help"):
            print(_group_overview(noun))
            return None, []
        command = BY_WORDS.get(f"{noun} {words[1]}")
        if command is None:
            verbs = [known.partition(" ")[2] for known in BY_WORDS if known.startswith(f"{noun} ")]
            raise _unknown(f"{noun} {words[1]}", words[1], verbs, f"millstream {noun} --help")
        return command, words[2:]
    command = BY_WORDS.get(noun)
    if command is None:
        nouns = [*GROUPS, *(known for known in BY_WORDS if " " not in known)]
        raise _unknown(noun, noun, nouns, "millstream --help")
    return command, words[1:]


def _joined(arguments: list[str], options: Sequence[str]) -> list[str]:
    """Join these options to the values after them, so that a value may begin with a minus."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in options:
            joined[-1] += argument if len(joined[-1]) == 2 else f"={argument}"
        else:
            joined.append(argument)
    return joined


def _help_about(words: list[str]) -> int:
    """``millstream help topic create`` is ``millstream topic create --help``."""
    if words:
        return _dispatch([*words, "--help"])
    print(_overview())
    return DONE


def _unknown(what: str, word: str, known: list[str], see: str) -> CommandFailed:
    close = _closest(word, known)
    hint = f"did you mean `{what.removesuffix(word)}{close}`?" if close else f"see `{see}`"
    return CommandFailed(f"there is no command `{what}`; {hint}", exit_code=MISUSED)


def _closest(word: str, known: list[str]) -> str | None:
    """What the word may have been meant to be."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1)), None)


def _overview() -> str:
    rows = [
        *((command.words, command.summary) for command in COMMANDS if " " not in command.words),
        *((f"{noun} …", summary) for noun, summary in GROUPS.items()),
    ]
    return "\n".join(
        [
            "Millstream: a Kafka-compatible event-streaming platform in Python.",
            "",
            "usage: millstream [-b HOST:PORT] COMMAND [OPTION]…",
            "",
            *_aligned(rows),
            "",
            EPILOG,
        ]
    )


def _group_overview(noun: str) -> str:
    rows = [(command.words, command.summary) for command in COMMANDS if command.words.startswith(f"{noun} ")]
    return "\n".join([GROUPS[noun], "", f"usage: millstream {noun} VERB [OPTION]…", "", *_aligned(rows), "", EPILOG])


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(words) for words, _ in rows)
    return [f"  {words:<{width}}  {summary}" for words, summary in rows]


if __name__ == "__main__":
    raise SystemExit(main())
