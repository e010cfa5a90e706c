"""Finding coordinators, and asking them until they can answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from millstream.client import coordinators as module
from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators, Kind, Node
from millstream.client.groups import delete_groups, describe_group
from millstream.client.producing import list_open
from millstream.client.wire import Address, ConnectionLost
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages import REQUESTS
from millstream.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from millstream.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from millstream.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from millstream.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import Answer, Handler, HangUp, ScriptedBroker, metadata_of

FIND = FindCoordinatorRequest.API_KEY
DESCRIBE = DescribeGroupsRequest.API_KEY
DELETE = DeleteGroupsRequest.API_KEY
#: A broker from before the consumer protocol.
CLASSIC_ONLY = {key: REQUESTS[key].VERSIONS for key in (FIND, DESCRIBE, DELETE, 18, 3)}


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work

    asyncio.run(bounded())


def found_at(*answers: Address | ErrorCode) -> Handler:
    """A handler for FindCoordinator that gives these one after the other, the last for ever."""
    left = list(answers)

    def handle(request: Request) -> FindCoordinatorResponse:
        assert isinstance(request, FindCoordinatorRequest)
        answer = left.pop(0) if len(left) > 1 else left[0]
        code, at = (answer, Address("", 0)) if isinstance(answer, ErrorCode) else (ErrorCode.NONE, answer)
        row = Coordinator(key=request.coordinator_keys[0], node_id=at.port, host=at.host, port=at.port, error_code=code)
        return FindCoordinatorResponse(coordinators=[row])

    return handle


def described(*codes: ErrorCode, state: str = "Empty") -> Handler:
    """A handler for DescribeGroups that gives these codes one after the other, the last for ever."""
    left = list(codes)

    def handle(request: Request) -> DescribeGroupsResponse:
        assert isinstance(request, DescribeGroupsRequest)
        code = left.pop(0) if len(left) > 1 else left[0]
        row = DescribedGroup(error_code=code, group_id=request.groups[0], group_state=state, protocol_type="")
        return DescribeGroupsResponse(groups=[row])

    return handle


def asked(broker: ScriptedBroker, kind: type[Request]) -> int:
    return sum(isinstance(request, kind) for request in broker.seen)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_a_coordinator_that_cannot_answer_yet_is_found_and_asked_again(code: ErrorCode) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as broker:
            broker.handlers |= {FIND: found_at(broker.address), DESCRIBE: described(code, code, ErrorCode.NONE)}
            async with Cluster([broker.address]) as cluster:
                group = await describe_group(Coordinators(cluster), "billing")
            assert group.state == "Empty"
            assert asked(broker, DescribeGroupsRequest) == 3
            assert asked(broker, FindCoordinatorRequest) == 3

    run(scenario())


def test_a_coordinator_that_moved_is_asked_where_it_is_now() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as old, ScriptedBroker(versions=CLASSIC_ONLY) as new:
            old.handlers |= {FIND: found_at(old.address, new.address), DESCRIBE: described(ErrorCode.NOT_COORDINATOR)}
            new.handlers |= {DESCRIBE: described(ErrorCode.NONE)}
            async with Cluster([old.address]) as cluster:
                group = await describe_group(Coordinators(cluster), "billing")
            assert group.coordinator == Node(new.address.port, new.address)

    run(scenario())


def test_a_known_coordinator_is_not_looked_up_again() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.handlers |= {FIND: found_at(broker.address)}
            async with Cluster([broker.address]) as cluster:
                coordinators = Coordinators(cluster)
                first = await coordinators.find(Kind.GROUP, "billing")
                assert await coordinators.find(Kind.GROUP, "billing") == first
                await coordinators.find(Kind.TRANSACTION, "billing")
            assert [request.key_type for request in broker.seen if isinstance(request, FindCoordinatorRequest)] == [
                0,
                1,
            ]

    run(scenario())


def test_an_old_broker_is_asked_for_one_key() -> None:
    """Before v4 a request had room for one key, and the answer for one coordinator."""

    async def scenario() -> None:
        async with ScriptedBroker(versions={**CLASSIC_ONLY, FIND: (0, 2)}) as broker:

            def handle(request: Request) -> Answer:
                assert isinstance(request, FindCoordinatorRequest)
                assert request.key == "billing"
                return FindCoordinatorResponse(node_id=7, host=broker.address.host, port=broker.address.port)

            broker.handlers |= {FIND: handle}
            async with Cluster([broker.address]) as cluster:
                assert await Coordinators(cluster).find(Kind.GROUP, "billing") == Node(7, broker.address)

    run(scenario())


def test_a_long_wait_is_told_once_and_ends_with_the_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELL_AFTER_S", 0.1)
    lines: list[str] = []

    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as broker:
            broker.handlers |= {FIND: found_at(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
            async with Cluster([broker.address], timeout_s=0.4) as cluster:
                with pytest.raises(ProtocolError) as refused:
                    await describe_group(Coordinators(cluster, lines.append), "billing")
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "group 'billing'" in str(refused.value)

    run(scenario())
    assert len(lines) == 1 and "COORDINATOR_NOT_AVAILABLE" in lines[0]


def test_another_refusal_is_not_waited_for() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as broker:
            broker.handlers |= {FIND: found_at(ErrorCode.GROUP_AUTHORIZATION_FAILED)}
            async with Cluster([broker.address]) as cluster:
                with pytest.raises(ProtocolError) as refused:
                    await describe_group(Coordinators(cluster), "billing")
            assert refused.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert asked(broker, FindCoordinatorRequest) == 1

    run(scenario())


def test_a_group_that_an_old_broker_calls_dead_is_not_there() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as broker:
            broker.handlers |= {FIND: found_at(broker.address), DESCRIBE: described(ErrorCode.NONE, state="Dead")}
            async with Cluster([broker.address]) as cluster:
                with pytest.raises(ProtocolError) as refused:
                    await describe_group(Coordinators(cluster), "billing")
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    run(scenario())


def test_a_delete_whose_answer_was_lost_is_not_repeated() -> None:
    """Done twice, it would say that the group was never there."""

    def hang_up(request: Request) -> Answer:
        raise HangUp

    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as broker:
            broker.handlers |= {FIND: found_at(broker.address), DELETE: hang_up}
            async with Cluster([broker.address]) as cluster:
                with pytest.raises(ConnectionLost):
                    await delete_groups(Coordinators(cluster), ["billing"])
            assert asked(broker, DeleteGroupsRequest) == 1

    run(scenario())


def test_each_group_is_deleted_by_a_request_of_its_own() -> None:
    """One that must be asked again does not repeat the others."""
    left = {"slow": [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE], "busy": [ErrorCode.NON_EMPTY_GROUP]}

    def handle(request: Request) -> Answer:
        assert isinstance(request, DeleteGroupsRequest)
        [name] = request.groups_names
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=left[name].pop(0))])

    async def scenario() -> None:
        async with ScriptedBroker(versions=CLASSIC_ONLY) as broker:
            broker.handlers |= {FIND: found_at(broker.address), DELETE: handle}
            async with Cluster([broker.address]) as cluster:
                outcomes = await delete_groups(Coordinators(cluster), ["slow", "busy", "slow"])
        assert [(each.name, each.code.name) for each in outcomes] == [("slow", "NONE"), ("busy", "NON_EMPTY_GROUP")]

    run(scenario())


@pytest.mark.parametrize(
    ("kind", "code"), [(Kind.GROUP, ErrorCode.INVALID_GROUP_ID), (Kind.TRANSACTION, ErrorCode.INVALID_REQUEST)]
)
def test_a_name_that_no_request_can_carry_is_refused(kind: Kind, code: ErrorCode) -> None:
    async def scenario() -> None:
        async with ScriptedBroker({}) as broker, Cluster([broker.address]) as cluster:
            with pytest.raises(ProtocolError, match="longer than the 32767 bytes") as refused:
                await Coordinators(cluster).find(kind, "x" * 40_000)
            assert refused.value.code is code

    run(scenario())


def test_a_broker_that_has_left_the_cluster_is_not_waited_for_and_what_it_had_is_asked_of_others() -> None:
    """Its place in the metadata outlives it by a moment, in which whoever asks every broker still asks it."""

    def listed(*names: str) -> Handler:
        rows = [TransactionState(transactional_id=name, producer_id=1, transaction_state="Ongoing") for name in names]
        return lambda request: ListTransactionsResponse(transaction_states=rows)

    def in_turn(*handlers: Handler) -> Handler:
        left = list(handlers)

        def handle(request: Request) -> Answer:
            return (left.pop(0) if len(left) > 1 else left[0])(request)

        return handle

    async def scenario() -> None:
        async with ScriptedBroker() as stays:
            async with ScriptedBroker() as leaves:
                both = {1: stays.address, 2: leaves.address}
            stays.handlers |= {
                MetadataRequest.API_KEY: in_turn(metadata_of(both, {}), metadata_of({1: stays.address}, {})),
                ListTransactionsRequest.API_KEY: in_turn(listed("a"), listed("a", "b")),
            }
            async with Cluster([stays.address]) as cluster:
                assert sorted(await list_open(Coordinators(cluster), ".*")) == ["a", "b"]

    run(scenario())
