"""DescribeConfigs (32), AlterConfigs (33) and IncrementalAlterConfigs (44): settings of topics and brokers."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.refusals import REFUSALS, refusal
from millstream.broker.settings import Replace
from millstream.config.broker import BROKER_SETTINGS
from millstream.config.changes import Change, changed
from millstream.config.describe import Description, describe_broker, describe_cluster, describe_topic
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
from millstream.registry.tree import RegistryError


class Resource(IntEnum):
    """What settings belong to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


#: How long a change waits for brokers that are slow to take it over.
SPREAD_MS = 1_000


async def describe(broker: Broker, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """The settings of each resource, or why they cannot be told; a broker that asks has changed some."""
    if call.connection.is_broker:
        with suppress(RegistryError):  # It follows them in any case.
            await broker.settings.refresh()
    return DescribeConfigsResponse(results=[_described(broker, request, each) for each in request.resources])


def _described(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    keys = None if resource.configuration_keys is None else frozenset(resource.configuration_keys)
    try:
        result.configs = [
            _row(each, request)
            for each in _descriptions(broker, resource.resource_type, resource.resource_name)
            if keys is None or each.name in keys
        ]
    except REFUSALS as error:
        result.error_code, result.error_message = refusal(error)
    return result


def _descriptions(broker: Broker, kind: int, name: str) -> list[Description]:
    config = broker.settings.config
    if kind == Resource.TOPIC:
        _check_topic(broker, name)
        return describe_topic(config, broker.settings.topic_overrides(name))
    if kind == Resource.BROKER:
        _check_broker(broker, name)
        return describe_broker(config) if name else describe_cluster(config)
    raise ProtocolError(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")


def _row(each: Description, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = each.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.is_read_only,
        config_source=each.source,
        is_sensitive=each.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=each.kind,
        documentation=each.doc if request.include_documentation else None,
    )


async def alter(
    broker: Broker, request: alter_configs.AlterConfigsRequest, call: Call
) -> alter_configs.AlterConfigsResponse:
    """Replace all overrides of each resource; what is not named goes back to its default.  In force when answered."""
    rows = []
    for resource in request.resources:
        code, message = await _changed(broker, resource, partial(_replaced, resource), request.validate_only)
        rows.append(
            alter_configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    if not request.validate_only:
        await _spread(broker)
    return alter_configs.AlterConfigsResponse(responses=rows)


async def incremental_alter(
    broker: Broker, request: incremental_alter_configs.IncrementalAlterConfigsRequest, call: Call
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """Set, delete, append to or subtract from single settings of each resource.  In force when answered."""
    rows = []
    for resource in request.resources:
        code, message = await _changed(
            broker,
            resource,
            partial(_operated, broker, resource),
            request.validate_only,
        )
        rows.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    if not request.validate_only:
        await _spread(broker)
    return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=rows)


async def _spread(broker: Broker) -> None:
    """Have the other brokers take over what was changed, so that it holds wherever the client goes next.

    One that is away or slow is not waited for: it hears of it by the registry.
    """

    async def tell(broker_id: int) -> None:
        with suppress(OSError, TimeoutError):
            await broker.channels.send(broker_id, DescribeConfigsRequest(), timeout_ms=SPREAD_MS)

    await asyncio.gather(*(tell(broker_id) for broker_id in broker.cluster.brokers if broker_id != broker.id))


async def _changed(broker: Broker, resource: Any, change: Replace, validate_only: bool) -> tuple[ErrorCode, str | None]:
    """Change one resource's overrides; one's refusal does not spoil another's change."""
    name = resource.resource_name
    try:
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
    except REFUSALS as error:
        return refusal(error)
    return ErrorCode.NONE, None


def _replaced(resource: alter_configs.AlterConfigsResource, before: dict[str, str]) -> Mapping[str, str]:
    values = {}
    for config in resource.configs:
        if config.value is None:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{config.name}: a value is needed")
        values[config.name] = config.value
    return values


def _operated(
    broker: Broker, resource: incremental_alter_configs.AlterConfigsResource, before: dict[str, str]
) -> Mapping[str, str]:
    settings = TOPIC_SETTINGS if resource.resource_type == Resource.TOPIC else BROKER_SETTINGS
    described = _descriptions(broker, resource.resource_type, resource.resource_name)
    in_force = {each.name: each.value for each in described if each.value is not None}
    changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
    return changed(settings, before, changes, in_force)


def _check_topic(broker: Broker, name: str) -> None:
    if (fault := topic_name_fault(name)) is not None:
        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if name not in broker.cluster.topics:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


def _check_broker(broker: Broker, name: str) -> None:
    if name and name != str(broker.id):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"this is broker {broker.id}; ask broker {name} itself")
