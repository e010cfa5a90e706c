"""Values of options, and where the bootstrap comes from."""

import argparse
from pathlib import Path

import pytest

from millstream.cli.failure import CommandFailed
from millstream.cli.options import bootstrap_of, not_negative, partition_numbers, positive, positive_seconds, setting


def test_settings_are_split_at_the_first_equals_sign() -> None:
    assert setting("a.b = c=d") == ("a.b", "c=d")
    for wrong in ("a.b", "=c", " =c"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not NAME=VALUE"):
            setting(wrong)


def test_numbers_may_be_scaled() -> None:
    assert [positive(text) for text in ("1", "5k", "2M", "1G")] == [1, 5_000, 2_000_000, 1_000_000_000]
    assert not_negative("0") == 0
    for wrong in ("0", "-1", "x", "", "k", "1.5"):
        with pytest.raises(argparse.ArgumentTypeError):
            positive(wrong)


def test_seconds_are_above_nothing() -> None:
    assert positive_seconds("0.5") == positive_seconds("0.5s") == 0.5
    for wrong in ("0", "-1", "x", "inf", "nan"):
        with pytest.raises(argparse.ArgumentTypeError):
            positive_seconds(wrong)


def test_partitions_are_a_list_of_numbers() -> None:
    assert partition_numbers("3,0, 3") == [0, 3]
    with pytest.raises(argparse.ArgumentTypeError):
        partition_numbers("0,x")


def test_the_bootstrap_is_the_option_then_the_profile_then_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("MILLSTREAM_BOOTSTRAP", raising=False)
    assert bootstrap_of(argparse.Namespace(bootstrap=None, profile=None)) == "127.0.0.1:9092"
    monkeypatch.setenv("MILLSTREAM_BOOTSTRAP", "from-environment:1")
    assert bootstrap_of(argparse.Namespace(bootstrap=None, profile=None)) == "from-environment:1"
    (tmp_path / "millstream").mkdir()
    (tmp_path / "millstream" / "profiles.yaml").write_text("staging:\n  bootstrap: from-profile:2\n")
    assert bootstrap_of(argparse.Namespace(bootstrap=None, profile="staging")) == "from-profile:2"
    assert bootstrap_of(argparse.Namespace(bootstrap="from-option:3", profile="staging")) == "from-option:3"


@pytest.mark.parametrize("content", [None, "", "other:\n  bootstrap: x:1\n", "staging: 5\n", "[", "- staging\n"])
def test_a_profile_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    if content is not None:
        (tmp_path / "millstream").mkdir()
        (tmp_path / "millstream" / "profiles.yaml").write_text(content)
    with pytest.raises(CommandFailed, match=r"profiles\.yaml"):
        bootstrap_of(argparse.Namespace(bootstrap=None, profile="staging"))
