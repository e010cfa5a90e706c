"""Changing settings while running: what IncrementalAlterConfigs does to a set of overrides, and what may be changed."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from millstream.config.broker import BROKER_SETTINGS, BrokerConfig
from millstream.config.setting import LIST, Setting, SettingError, unknown
from millstream.model.errors import ErrorCode, ProtocolError


class Operation(IntEnum):
    """What is done to a setting, by IncrementalAlterConfigs' numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one setting."""

    name: str
    operation: int
    value: str | None


def changed(
    settings: Mapping[str, Setting[Any]],
    overrides: Mapping[str, str],
    changes: Iterable[Change],
    in_force: Mapping[str, str],
) -> dict[str, str]:
    """The overrides after the changes; they are not checked beyond what the operations need.

    ``in_force`` says what a list starts from where there is no override to append to or subtract from.
    """
    result = dict(overrides)
    seen: set[str] = set()
    for change in changes:
        name = change.name
        if name in seen:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{name} is changed twice in one request")
        seen.add(name)
        if change.operation == Operation.DELETE:
            result.pop(name, None)
            continue
        if change.value is None:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{name}: a value is needed")
        if change.operation == Operation.SET:
            result[name] = change.value
        elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
            result[name] = _list_changed(settings, change, result.get(name, in_force.get(name, "")))
        else:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{name}: unknown operation {change.operation}")
    return result


def _list_changed(settings: Mapping[str, Setting[Any]], change: Change, current: str) -> str:
    setting = settings.get(change.name)
    if setting is None:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, unknown(change.name, settings))
    if setting.kind is not LIST:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{change.name} is no list: it can be set or deleted only")
    have, given = LIST.parse(current), LIST.parse(change.value or "")
    if change.operation == Operation.APPEND:
        return LIST.text([*have, *(entry for entry in dict.fromkeys(given) if entry not in have)])
    return LIST.text([entry for entry in have if entry not in given])


def check_broker_overrides(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Refuse dynamic settings that are unknown, cannot change while running, or are wrong alone or together.

    The refusal is INVALID_REQUEST, as Kafka answers for brokers (and INVALID_CONFIG for topics).
    """
    try:
        for name in overrides:
            if name not in BROKER_SETTINGS:
                raise SettingError(unknown(name, BROKER_SETTINGS))
            if not BROKER_SETTINGS[name].dynamic:
                raise SettingError(f"{name} cannot be changed while the broker runs")
        config.with_changes(dynamic=overrides)
    except SettingError as error:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, str(error)) from error
