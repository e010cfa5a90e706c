"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44): settings of topics and brokers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.settings import Entry
from millstream.config.broker import BROKER_SETTINGS
from millstream.config.setting import LIST
from millstream.config.topic import TOPIC_SETTINGS
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import topic_name_fault
from millstream.protocol.messages import alter_configs, incremental_alter_configs
from millstream.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class Resource(IntEnum):
    """What settings belong to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """What is done to one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def describe(broker: Broker, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """The settings of each resource, or why they cannot be told."""
    return DescribeConfigsResponse(results=[_described(broker, request, each) for each in request.resources])


def _described(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    keys = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
    try:
        result.configs = [
            _row(entry, request)
            for entry in _entries(broker, resource.resource_type, resource.resource_name)
            if keys is None or entry.name in keys
        ]
    except ProtocolError as refusal:
        result.error_code, result.error_message = refusal.code, refusal.detail
    return result


def _entries(broker: Broker, kind: int, name: str) -> Iterator[Entry]:
    if kind == Resource.TOPIC:
        _check_topic(broker, name)
        return broker.settings.describe_topic(broker.settings.topic_overrides(name))
    if kind == Resource.BROKER:
        _check_broker(broker, name)
        return broker.settings.describe_broker() if name else broker.settings.describe_cluster_default()
    raise ProtocolError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")


def _row(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.setting.kind.code,
        documentation=entry.setting.doc if request.include_documentation else None,
    )


async def alter(
    broker: Broker, request: alter_configs.AlterConfigsRequest, call: Call
) -> alter_configs.AlterConfigsResponse:
    """Replace all overrides of each resource; what is not named goes back to its default."""
    rows = []
    for resource in request.resources:
        after = {config.name: config.value for config in resource.configs if config.value is not None}
        code, message = await _changed(broker, resource, lambda _, after=after: after, request.validate_only)
        rows.append(
            alter_configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return alter_configs.AlterConfigsResponse(responses=rows)


async def incremental_alter(
    broker: Broker, request: incremental_alter_configs.IncrementalAlterConfigsRequest, call: Call
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """Set, delete, append to or subtract from single settings of each resource."""
    rows = []
    for resource in request.resources:
        code, message = await _changed(
            broker, resource, lambda before, resource=resource: _operated(resource, before), request.validate_only
        )
        rows.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=rows)


async def _changed(
    broker: Broker, resource: Any, change: Callable[[dict[str, str]], Mapping[str, str]], validate_only: bool
) -> tuple[ErrorCode, str | None]:
    """Change one resource's overrides; one's refusal does not spoil another's change."""
    name = resource.resource_name
    try:
        _refuse_repeats(config.name for config in resource.configs)
        if resource.resource_type == Resource.TOPIC:
            _check_topic(broker, name)
            await broker.settings.change_topic(name, change, validate_only)
        elif resource.resource_type == Resource.BROKER:
            _check_broker(broker, name)
            await broker.settings.change_broker(name, change, validate_only)
        else:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here"
            )
    except ProtocolError as refusal:
        return refusal.code, refusal.detail
    return ErrorCode.NONE, None


def _operated(
    resource: incremental_alter_configs.AlterConfigsResource, before: dict[str, str]
) -> Mapping[str, str]:
    after = dict(before)
    for config in resource.configs:
        if config.config_operation == Operation.DELETE:
            after.pop(config.name, None)
        elif config.value is None:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{config.name} was given no value")
        elif config.config_operation == Operation.SET:
            after[config.name] = config.value
        elif config.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            after[config.name] = _listed(resource.resource_type, config, after)
        else:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"operation {config.config_operation} is not known")
    return after


def _listed(kind: int, config: incremental_alter_configs.AlterableConfig, overrides: Mapping[str, str]) -> str:
    """A list setting with items added or taken away."""
    setting = (TOPIC_SETTINGS if kind == Resource.TOPIC else BROKER_SETTINGS).get(config.name)
    if setting is None or setting.kind is not LIST:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{config.name} is not a list, so nothing can be added or taken")
    default = setting.fallbacks[0].setting.default if setting.fallbacks else setting.default
    items = list(LIST.parse(overrides[config.name]) if config.name in overrides else default or ())
    named = LIST.parse(config.value or "")
    if config.config_operation == Operation.APPEND:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def _refuse_repeats(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} is given twice")
        seen.add(name)


def _check_topic(broker: Broker, name: str) -> None:
    if (fault := topic_name_fault(name)) is not None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name not in broker.cluster.topics:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


def _check_broker(broker: Broker, name: str) -> None:
    if name and name != str(broker.id):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"this is broker {broker.id}; ask broker {name} itself")
