"""Finding a command, helping, and ending with the right code."""

import subprocess
import sys
from importlib import import_module

import pytest

from millstream import __version__
from millstream.cli.commands import COMMANDS, GROUPS
from millstream.cli.failure import ADVICE, explain, refusal
from millstream.cli.main import main
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError

#: What no help may load: each costs more than all the rest of a help together.
HEAVY = (
    "asyncio",
    "numpy",
    "yaml",
    "uvloop",
    "cramjam",
    "millstream.client",
    "millstream.broker",
    "millstream.protocol",
)


def test_the_overview_names_every_command_and_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    overview = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == overview
    for word in {command.words.split()[0] for command in COMMANDS}:
        assert f"\n  {word} " in overview
    assert max(map(len, overview.splitlines())) <= 80


@pytest.mark.parametrize("noun", GROUPS)
def test_a_groups_overview_names_its_verbs(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([noun]) == 0
    overview = capsys.readouterr().out
    verbs = [command.words for command in COMMANDS if command.words.startswith(f"{noun} ")]
    assert verbs and all(f"\n  {words} " in overview for words in verbs)
    assert max(map(len, overview.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_every_command_helps_in_eighty_columns(
    command: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = getattr(command, "words", "").split()
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: millstream {' '.join(words)}")
    assert str(import_module(getattr(command, "module", "")).__doc__).splitlines()[0] in text
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "--bootstrap" in text or not getattr(command, "online", None)


def test_no_help_loads_anything_heavy() -> None:
    """One process for all commands: what any of them loads is seen."""
    script = """
import contextlib, io, sys
from millstream.cli.commands import COMMANDS
from millstream.cli.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
    for command in COMMANDS:
        with contextlib.suppress(SystemExit):
            main([*command.words.split(), "--help"])
print(*sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = result.stdout.split()
    assert [name for name in loaded if name.startswith(HEAVY)] == []


def test_help_is_also_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "topic", "create"])
    assert capsys.readouterr().out.startswith("usage: millstream topic create")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["version"], ["--version"], ["-V"]):
        assert main(words) == 0
        assert capsys.readouterr().out == f"millstream {__version__}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["tpic"], "did you mean `topic`?"),
        (["topic", "lst"], "did you mean `topic list`?"),
        (["xyzzy"], "see `millstream --help`"),
        (["topic", "xyzzy"], "see `millstream topic --help`"),
        (["-b"], "-b needs a value"),
        (["-b", "host:x", "topic", "list"], "'host:x' is not HOST:PORT"),
        (["--bootstrap=,", "topic", "list"], "no broker is named"),
    ],
)
def test_a_misuse_is_told_in_a_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("millstream: ") and told in errors
    assert len(errors.splitlines()) == 1


def test_options_cannot_be_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    """What is unambiguous today may not be tomorrow, and scripts would break."""
    with pytest.raises(SystemExit) as ended:
        main(["topic", "list", "--under"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["consume", "orders", "--partition", "0"], "--partition 0; did you mean --partitions?\n"),
        (["topic", "create", "orders", "--partitons=3"], "--partitons=3; did you mean --partitions?\n"),
        (["topic", "list", "--bootstap", "host:9092"], "--bootstap; did you mean --bootstrap?\n"),
        (["topic", "list", "--xyzzy"], "unrecognized arguments: --xyzzy\n"),
    ],
)
def test_a_misspelt_option_is_told_with_the_one_meant(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("millstream.cli.version.run", interrupted)
    assert main(["version"]) == 130


def test_our_own_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(args: object) -> int:
        raise AssertionError("ours")

    monkeypatch.setattr("millstream.cli.version.run", broken)
    with pytest.raises(AssertionError, match="ours"):
        main(["version"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'x'"),
            "there is no topic 'x' (UNKNOWN_TOPIC_OR_PARTITION); see what there is with: millstream topic list",
        ),
        (ProtocolError(ErrorCode.INVALID_REQUEST), "invalid request (INVALID_REQUEST)"),
        (FileNotFoundError(2, "No such file", "rows.txt"), "rows.txt: No such file"),
        (ConnectionError("nothing listens"), "nothing listens"),
        (TimeoutError("host:1 did not answer"), "host:1 did not answer; a longer wait can be given with --timeout"),
        (CorruptFrame("short"), "the broker's answer could not be read (short); is it a Kafka-compatible broker?"),
        (ValueError("ours"), None),
    ],
)
def test_a_failure_is_explained_unless_it_is_our_bug(error: Exception, sentence: str | None) -> None:
    assert explain(error) == sentence


def test_advice_names_what_was_refused_as_a_shell_takes_it() -> None:
    busy = refusal("NON_EMPTY_GROUP", "", {"group": "the billing"})
    assert busy.endswith("with: millstream group describe 'the billing' --members")
    assert refusal("TOPIC_ALREADY_EXISTS", "", {"topic": "orders"}).endswith("with: millstream topic describe orders")
    assert refusal("NON_EMPTY_GROUP", "").endswith("with: millstream group describe GROUP --members")


@pytest.mark.parametrize("name", ADVICE)
def test_every_command_that_advice_names_is_one(name: str) -> None:
    _, is_advised, line = refusal(name, "").partition("millstream ")
    assert not is_advised or " ".join(line.split()[:2]) in {command.words for command in COMMANDS}
