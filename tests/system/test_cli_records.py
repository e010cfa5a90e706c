"""Producing, consuming and tailing from the command line, against a running broker."""

import base64
import json
import os
import signal
from pathlib import Path

import pytest

from tests.system.command import Millstream

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_lines_come_back_as_they_went_in(millstream: Millstream, topic: str) -> None:
    lines = [f"line {number}" for number in range(1000)]
    written = millstream("produce", topic, "-p", 1, "-o", "json", stdin="\n".join(lines) + "\n").document
    assert written == [{"partition": 1, "records": 1000, "first_offset": 0, "last_offset": 999}]
    assert millstream("consume", topic, "-e").lines == lines


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_comes_back(millstream: Millstream, topic: str, codec: str) -> None:
    millstream("produce", topic, "-p", 0, "-z", codec, stdin="a\nb\nc\n")
    assert millstream("consume", topic, "-e", "-f", r"%o=%v\n").lines == ["0=a", "1=b", "2=c"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_comes_back(millstream: Millstream, topic: str, acks: str) -> None:
    millstream("produce", topic, "-p", 0, "-a", acks, stdin="only\n")
    assert millstream("consume", topic, "-n", 1).lines == ["only"]


def test_keys_headers_nulls_and_times_are_kept(millstream: Millstream, topic: str) -> None:
    options = ("-p", 0, "-K", ":", "-Z", "-H", "source=test", "-H", "empty", "-T", "2026-01-31T12:00:00.250Z")
    millstream("topic", "alter", topic, "-c", "retention.ms=-1")
    millstream("produce", topic, *options, stdin="k:v\nk:\n:v\n")
    rows = [json.loads(line) for line in millstream("consume", topic, "-e", "--output", "json").lines]
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (0, "k", "v"),
        (1, "k", None),
        (2, None, "v"),
    ]
    assert all(row["headers"] == [{"key": "source", "value": "test"}, {"key": "empty", "value": None}] for row in rows)
    assert {row["time"] for row in rows} == {"2026-01-31T12:00:00.250Z"}
    formatted = millstream("consume", topic, "-e", "-f", r"%t %p %o %k|%v %K %V %h %T\n", "--null", "~").lines
    assert formatted[1] == f"{topic} 0 1 k|~ 1 -1 source=test,empty=~ 1769860800250"


def test_the_same_key_always_goes_to_the_same_partition(millstream: Millstream, topic: str) -> None:
    millstream("produce", topic, "-K", "=", stdin="a=1\nb=1\na=2\nb=2\n")
    millstream("produce", topic, "-k", "a", stdin="3\n")
    places: dict[str, set[str]] = {}
    for line in millstream("consume", topic, "-e", "-f", r"%k %p\n").lines:
        key, partition = line.split()
        places.setdefault(key, set()).add(partition)
    assert {key: len(partitions) for key, partitions in places.items()} == {"a": 1, "b": 1}


def test_files_and_other_delimiters_are_read(millstream: Millstream, topic: str, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a;b;c")
    (tmp_path / "two").write_bytes(b"d;")
    millstream("produce", topic, str(tmp_path / "one"), str(tmp_path / "two"), "-D", ";", "-p", 2, "-q")
    assert millstream("consume", topic, "-e").lines == ["a", "b", "c", "d"]


def test_bytes_that_are_not_text_go_both_ways(millstream: Millstream, topic: str) -> None:
    raw = bytes(range(256))
    millstream("produce", topic, "-p", 0, "--value-format", "base64", stdin=base64.b64encode(raw).decode())
    assert millstream("consume", topic, "-e", "--value-format", "hex").lines == [raw.hex()]
    row = json.loads(millstream("consume", topic, "-e", "--output", "json").output)
    assert row["value_encoding"] == "base64"
    assert base64.b64decode(row["value"]) == raw


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("start", "0123456789"),
        ("end", ""),
        ("7", "789"),
        ("+8", "89"),
        ("-2", "89"),
        ("-3:8", "7"),
        ("3:5", "34"),
        (":2", "01"),
        ("8:", "89"),
        ("@2026-01-31T00:00:05Z", "56789"),
        ("@2026-01-31T00:00:05Z:2s", "56"),
        ("@:2026-01-31T00:00:02Z", "01"),
        ("@2026-02-01", ""),
        ("-100", "0123456789"),
    ],
)
def test_every_way_to_name_an_offset(millstream: Millstream, ten_seconds: str, offset: str, expected: str) -> None:
    for option in ("-o", "--offset"):
        assert millstream("consume", ten_seconds, "-e", option, offset, "-f", "%v").output == expected


@pytest.fixture(scope="module")
def ten_seconds(millstream: Millstream) -> str:
    """A topic of ten records, in batches of one, a second apart."""
    name = f"ten-seconds-{os.urandom(4).hex()}"
    millstream("topic", "create", name, "-p", 1, "-c", "retention.ms=-1")
    for second in range(10):
        millstream("produce", name, "-T", f"2026-01-31T00:00:{second:02}Z", stdin=f"{second}\n")
    return name


def test_from_the_middle_of_a_batch(millstream: Millstream, topic: str) -> None:
    millstream("produce", topic, "-p", 0, stdin="a\nb\nc\nd\n")
    assert millstream("consume", topic, "-p", 0, "-o", "2:3").lines == ["c"]


def test_so_many_and_no_more(millstream: Millstream, topic: str) -> None:
    millstream("produce", topic, "-p", 0, stdin="a\nb\nc\nd\n")
    assert millstream("consume", topic, "-n", 3, "--from-beginning").lines == ["a", "b", "c"]


def test_a_batch_larger_than_a_fetch_is_read_whole(millstream: Millstream, topic: str) -> None:
    large = "x" * 800_000
    millstream("produce", topic, "-p", 0, stdin=f"{large}\n{large}\n")
    assert [len(line) for line in millstream("consume", topic, "-e").lines] == [800_000, 800_000]


def test_a_record_over_the_limit_is_refused_with_advice(millstream: Millstream, topic: str) -> None:
    refused = millstream("produce", topic, "-p", 0, stdin="x" * 2_000_000, code=1)
    assert "MESSAGE_TOO_LARGE" in refused.errors
    assert f"with: millstream topic alter {topic} -c max.message.bytes=" in refused.errors


def test_what_is_written_later_is_followed(millstream: Millstream, topic: str) -> None:
    follower = millstream.start("consume", topic, "-o", "start", "--follow", "-f", r"%v\n")
    try:
        assert follower.stdout is not None
        for word in ("first", "second"):
            millstream("produce", topic, stdin=f"{word}\n")
            assert follower.stdout.readline() == f"{word}\n"
        follower.send_signal(signal.SIGINT)
        output, errors = follower.communicate(timeout=10)
    finally:
        follower.kill()
        follower.wait()
    assert (follower.returncode, output, errors) == (130, "", "")


def test_lines_typed_one_by_one_are_sent_one_by_one(millstream: Millstream, topic: str) -> None:
    writer = millstream.start("produce", topic, "-p", 0, "-q")
    try:
        assert writer.stdin is not None
        for number in range(1, 3):
            writer.stdin.write(f"line {number}\n")
            writer.stdin.flush()
            assert millstream("consume", topic, "-n", number).lines[-1] == f"line {number}"
        assert writer.communicate(timeout=10) == ("", "")
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == 0


def test_a_reader_that_leaves_ends_the_command_quietly(millstream: Millstream, topic: str) -> None:
    millstream("produce", topic, "-p", 0, stdin="".join(f"{number}\n" for number in range(40_000)))
    reader = millstream.start("consume", topic)
    assert reader.stdout is not None and reader.stderr is not None and reader.stdin is not None
    reader.stdin.close()
    assert reader.stdout.readline() == "0\n"
    reader.stdout.close()
    assert reader.wait(timeout=10) == 0
    assert reader.stderr.read() == ""
    reader.stderr.close()


def test_tail_shows_the_last_by_time_over_all_partitions(millstream: Millstream, topic: str) -> None:
    millstream("topic", "alter", topic, "-c", "retention.ms=-1")
    for partition, second in ((0, 1), (1, 2), (2, 3), (0, 4)):
        stamp = f"2026-01-31T00:00:{second:02}Z"
        millstream("produce", topic, "-p", partition, "-T", stamp, stdin=f"{second}\n")
    assert millstream("tail", topic, "-n", 3, "-e").lines == ["2", "3", "4"]
    assert millstream("tail", topic, "-n", 0, "-e").lines == []


def test_mistakes_are_told_in_a_line(millstream: Millstream, topic: str) -> None:
    for words, code, told in (
        (("consume", "there-is-none"), 1, "millstream topic list"),
        (("consume", topic, "-o", "yesterday"), 2, "'yesterday' is not an offset"),
        (("consume", topic, "-o", "@yesterday"), 2, "'yesterday' is not a time"),
        (("consume", topic, "-f", "%q"), 2, "%q means nothing"),
        (("consume", topic, "-p", "9"), 1, "has 3 partitions, none numbered 9"),
        (("produce", topic, "-p", "9"), 1, "has 3 partitions, none numbered 9"),
        (("produce", topic, "-k", "a", "-K", ":"), 2, "either -k or -K"),
        (("produce", topic, "/there/is/none"), 1, "/there/is/none: No such file"),
    ):
        told_errors = millstream(*words, code=code).errors
        assert told in told_errors
        assert len(told_errors.splitlines()) == 1
