"""Values of options, and where the bootstrap comes from."""

import argparse
from pathlib import Path

import pytest

from millstream.cli.failure import CommandFailed
from millstream.cli.options import (
    bootstrap_of,
    broker_numbers,
    duration_ms,
    not_negative,
    partition_numbers,
    positive,
    positive_seconds,
    setting,
    some_of,
    topic_choice,
)


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
    with pytest.raises(argparse.ArgumentTypeError, match="'50X' is not a whole number; k, M or G may follow one"):
        positive("50X")


def test_seconds_are_above_nothing() -> None:
    assert positive_seconds("0.5") == positive_seconds("0.5s") == 0.5
    for wrong in ("0", "-1", "x", "inf", "nan"):
        with pytest.raises(argparse.ArgumentTypeError):
            positive_seconds(wrong)


def test_partitions_are_a_list_of_numbers() -> None:
    assert partition_numbers("3,0, 3") == [0, 3]
    with pytest.raises(argparse.ArgumentTypeError):
        partition_numbers("0,x")


def test_brokers_are_a_list_of_numbers_too() -> None:
    assert broker_numbers("3,1") == [1, 3]
    with pytest.raises(argparse.ArgumentTypeError, match="'a' is not a list of brokers' ids such as 1,2,3"):
        broker_numbers("a")


def test_a_topic_is_chosen_whole_or_in_parts() -> None:
    assert topic_choice("orders") == ("orders", None)
    assert topic_choice("orders:3,0") == ("orders", [0, 3])
    for wrong in ("", ":0", "orders:", "orders:x"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"such as (orders|0,3,7)"):
            topic_choice(wrong)


def test_a_duration_that_is_none_is_told_with_examples() -> None:
    assert duration_ms("1h") == duration_ms("PT1H") == 3_600_000
    with pytest.raises(argparse.ArgumentTypeError, match=r"'soon' is not a duration; write it as 500ms, .* PT1H"):
        duration_ms("soon")


def test_some_of_a_list_are_chosen_in_any_case() -> None:
    states = some_of(("Stable", "Empty", "Dead"))
    assert states("stable, EMPTY") == {"Stable", "Empty"}
    with pytest.raises(argparse.ArgumentTypeError, match="'Stabel' is none of Stable, Empty, Dead"):
        states("Empty,Stabel")


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
