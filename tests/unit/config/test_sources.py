"""Where values come from, and which of them wins."""

from pathlib import Path

import pytest

from millstream.config.broker import BROKER_SETTINGS, BrokerConfig
from millstream.config.log import LOG_SEGMENT_BYTES
from millstream.config.setting import SettingError
from millstream.config.sources import parse_properties, variable_of


def entries(text: str) -> list[tuple[str, str]]:
    return [(name, value) for _, name, value in parse_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("  a = b c  ", [("a", "b c  ")]),
        ("a:b\na b\na\t=\tb", [("a", "b")] * 3),
        ("# comment\n! comment\n\n   \n  # indented", []),
        ("a=b#c", [("a", "b#c")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a==b", [("a", "=b")]),
        ("a=one, \\\n   two,\\\r\n\tthree", [("a", "one, two,three")]),
        ("a=x\\\\\nb=y", [("a", "x\\"), ("b", "y")]),
        ("a=x\\\n# not a comment", [("a", "x# not a comment")]),
        ("a\\ b\\=c=d", [("a b=c", "d")]),
        ("a=\\t\\u00e9\\u4E2D\\q", [("a", "\té中q")]),
        ("a=\\uD83D\\uDE00", [("a", "😀")]),
        ("a=C:\\\\data", [("a", "C:\\data")]),
        ("a=1\ra=2", [("a", "1"), ("a", "2")]),
        ("a=end\\", [("a", "end")]),
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert entries(text) == expected


def test_entries_know_the_line_they_began_on() -> None:
    assert [line for line, _, _ in parse_properties("#\na=1\\\n2\n\nb=3")] == [2, 5]


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(SettingError, match="four hexadecimal digits"):
        entries("a=\\u12g4")


def test_the_command_line_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.segment.bytes=3000\nnum.partitions=3\nlog.retention.hours=3\n")
    environ = {"MILLSTREAM_LOG_SEGMENT_BYTES": "2000", "MILLSTREAM_NUM_PARTITIONS": "2", "PATH": "/bin"}
    config = BrokerConfig.load(str(file), ["log.segment.bytes=1000"], environ)
    values = {given.text: given.origin for given in config.static.values()}
    assert values == {"1000": "--set", "2": "environment MILLSTREAM_NUM_PARTITIONS", "3": f"{file}:3"}
    assert config.get(LOG_SEGMENT_BYTES) == 1000
    assert BrokerConfig.load().get(LOG_SEGMENT_BYTES) == 2**30


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert variable_of("log.segment.bytes") == "MILLSTREAM_LOG_SEGMENT_BYTES"
    assert len({variable_of(name) for name in BROKER_SETTINGS}) == len(BROKER_SETTINGS)


def test_an_unknown_name_is_a_warning_in_a_file_and_an_error_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("authorizer.class=1\nlog.segmnt.bytes=5\nnum.partitions=4\n")
    config = BrokerConfig.load(str(file))
    assert [warning.partition(": ")[2] for warning in config.warnings] == [
        "unknown setting 'authorizer.class'; ignored",
        "unknown setting 'log.segmnt.bytes'; did you mean 'log.segment.bytes'?; ignored",
    ]
    with pytest.raises(SettingError, match=r"--set log\.segmnt\.bytes: .*did you mean 'log\.segment\.bytes'"):
        BrokerConfig.load(overrides=["log.segmnt.bytes=5"])
    with pytest.raises(SettingError, match=r"MILLSTREAM_LOG_DIR_S.*did you mean 'MILLSTREAM_LOG_DIRS'"):
        BrokerConfig.load(environ={"MILLSTREAM_LOG_DIR_S": "x"})


def test_variables_that_are_no_settings_of_a_broker_are_left_alone() -> None:
    environ = {
        "MILLSTREAM_BOOTSTRAP": "localhost:9092",
        "MILLSTREAM_CHECKPOINTS": "/kept",
        "MILLSTREAM_SPARK_LOG_LEVEL": "fatal",
        "MILLSTREAM_BENCH_WRAP": "py-spy",
        "MILLSTREAM_TEST_BOOTSTRAP": "x",
        "OTHER": "y",
    }
    assert BrokerConfig.load(environ=environ).static == {}


def test_an_assignment_without_an_equals_sign_is_refused() -> None:
    for text in ("log.dirs", "=x"):
        with pytest.raises(SettingError, match="must be name=value"):
            BrokerConfig.load(overrides=[text])


def test_a_value_may_hold_equals_signs() -> None:
    assert BrokerConfig.load(overrides=["broker.rack=a=b"]).static["broker.rack"].text == "a=b"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"nowhere\.properties"):
        BrokerConfig.load(str(tmp_path / "nowhere.properties"))


def test_a_bad_value_in_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("\nnum.partitions=none\n")
    with pytest.raises(SettingError, match=r"num\.partitions=none \(.*server\.properties:2\): must be a whole number"):
        BrokerConfig.load(str(file))
