"""A setting reads text as Kafka does and says what is allowed when it cannot."""

import pytest

from millstream.config.log import LOG_SEGMENT_BYTES
from millstream.config.setting import (
    BOOLEAN,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PASSWORD,
    Fallback,
    Kind,
    Setting,
    SettingError,
    between,
    one_of,
    some_of,
    table,
    unknown,
)


@pytest.mark.parametrize(
    ("kind", "text", "value", "back"),
    [
        (INT, " 12 ", 12, "12"),
        (INT, "-2147483648", -(2**31), "-2147483648"),
        (LONG, "+9223372036854775807", LONG_MAX, "9223372036854775807"),
        (BOOLEAN, "TRUE", True, "true"),
        (BOOLEAN, "false", False, "false"),
        (DOUBLE, "0.5", 0.5, "0.5"),
        (DOUBLE, "1", 1.0, "1.0"),
        (DOUBLE, "1.7976931348623157E308", DOUBLE_MAX, "1.7976931348623157E308"),
        (LIST, "a , b,c", ("a", "b", "c"), "a,b,c"),
        (LIST, "", (), ""),
    ],
)
def test_text_becomes_a_value_and_text_again(kind: Kind[object], text: str, value: object, back: str) -> None:
    setting = Setting("x", kind, default=None, doc="")
    assert setting.parse(text) == value
    assert setting.text(value) == back


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (INT, "2147483648"),
        (INT, "1_000"),
        (INT, "٣"),
        (INT, "1.0"),
        (INT, ""),
        (LONG, "9223372036854775808"),
        (BOOLEAN, "yes"),
        (DOUBLE, "nan"),
        (DOUBLE, "1_0.5"),
        (DOUBLE, "half"),
    ],
)
def test_text_of_another_kind_is_refused(kind: Kind[object], text: str) -> None:
    with pytest.raises(SettingError, match=rf"x=.*must be {kind.wanted}"):
        Setting("x", kind, default=None, doc="").parse(text)


def test_an_error_names_the_setting_the_value_the_place_and_what_is_allowed() -> None:
    with pytest.raises(SettingError) as caught:
        LOG_SEGMENT_BYTES.parse("13", "server.properties:7")
    assert str(caught.value) == (
        "log.segment.bytes=13 (server.properties:7): must be a whole number of at most 32 bits, at least 14"
    )


def test_checks_hold_at_their_bounds_and_not_beyond() -> None:
    ratio = between(0, 1)
    assert [ratio.holds(value) for value in (-0.01, 0, 1, 1.01)] == [False, True, True, False]
    assert not one_of("a", "b").holds("c")
    policies = some_of("delete", "compact")
    assert policies.holds(("compact", "delete"))
    assert not policies.holds(())
    assert not policies.holds(("compact", "keep"))


def test_a_password_is_never_shown() -> None:
    secret = Setting("ssl.key.password", PASSWORD, default="", doc="", check=one_of("right"))
    assert secret.is_sensitive
    with pytest.raises(SettingError) as caught:
        secret.parse("hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_coarser_unit_is_scaled_and_no_limit_stays_no_limit() -> None:
    hours = Setting("hours", INT, default=1, doc="")
    assert Fallback(hours, times=3_600_000).scaled(2) == 7_200_000
    assert Fallback(hours, times=3_600_000).scaled(-1) == -1
    assert Fallback(hours, times=3_600_000).scaled(LONG_MAX // 2) == LONG_MAX


def test_two_settings_of_one_name_are_our_own_bug() -> None:
    one, other = (Setting("x", INT, default=number, doc="") for number in (1, 2))
    assert list(table([one, "no setting"])) == ["x"]
    with pytest.raises(AssertionError):
        table([one, other])


def test_an_unknown_name_is_told_its_nearest_neighbour() -> None:
    assert unknown("log.segment.byte", ["log.segment.bytes", "log.dirs"]) == (
        "unknown setting 'log.segment.byte'; did you mean 'log.segment.bytes'?"
    )
    assert unknown("zzz", ["log.dirs"]) == "unknown setting 'zzz'"
