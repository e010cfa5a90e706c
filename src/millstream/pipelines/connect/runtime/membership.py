"""One worker to a group: it is the only member of a consumer group for as long as it lives.

Kafka Connect's own workers are members of such a group as well, and under their shipped settings of this very one, so
that neither works beside the other.  A worker is the same member over all its lives in a folder: started again, it
takes its own place, and need not wait until it is missed.
"""

import asyncio
import os
from collections.abc import Callable
from uuid import uuid4

from millstream.client.cluster import check, error_of
from millstream.client.coordinators import Coordinators, Kind
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.running.failures import PipelineError
from millstream.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

#: The kind of group that Kafka Connect's workers form, and the one way of ours to share it out: not at all.
PROTOCOL_TYPE = "connect"
PROTOCOL = "millstream"
#: A worker that is not heard of for so long is gone, and may be replaced: then its processes are gone as well, which
#: work for no longer than this after it was.
SESSION_TIMEOUT_MS = 30_000
LEASE_S = 20.0
REBALANCE_TIMEOUT_MS = 10_000
BEAT_S = 2.0
#: Leaving is a courtesy: a coordinator that does not answer will notice by itself.
LEAVE_TIMEOUT_S = 2.0
INSTANCE_FILE = "worker.id"

#: What says that we are to join anew, and whether by another id.
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


def group_id(group: str) -> str:
    """The consumer group of a group's worker; the topics ``connect-…`` have ``connect-cluster``, as Connect ships."""
    return f"{group}-cluster"


def instance_of(data: str) -> str:
    """The id that all workers over a folder have, one after the other."""
    path = os.path.join(data, INSTANCE_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        found = uuid4().hex
    os.makedirs(data, exist_ok=True)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(found)
    os.replace(f"{path}.new", path)
    return found


class Membership:
    """A worker's place in its group; PipelineError, in a line, where another has it."""

    def __init__(self, coordinators: Coordinators, group: str, instance: str, worker_id: str) -> None:
        self._coordinators = coordinators
        self._group = group
        self._id = group_id(group)
        self._instance = instance
        self._worker_id = worker_id
        self._member_id = ""
        self._generation = -1

    async def join(self) -> None:
        """Take the place, unless somebody who lives has it."""
        if others := await self._others():
            raise self._taken(others)
        await self._join()

    async def keep(self, kept: Callable[[], None]) -> None:
        """Keep the place, for ever, and say so each time; PipelineError once another has it.

        While brokers do not answer, it stays: nobody else can have it then.
        """
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                code = await self._beat()
                if code is ErrorCode.NONE:
                    kept()
                elif code in _REJOIN:
                    if code is ErrorCode.UNKNOWN_MEMBER_ID:  # We were silent for too long.
                        self._member_id = ""
                        await self.join()
                    else:
                        await self._join()
                elif code is ErrorCode.FENCED_INSTANCE_ID:
                    raise self._taken(await self._others(is_replaced=True))
            except (OSError, ProtocolError):
                continue

    async def check(self) -> None:
        """ProtocolError where another has taken the place and ``keep`` has not heard of it yet."""
        code = await self._beat()
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID):
            raise ProtocolError(code, f"this worker has lost its place in group {self._id!r}")

    async def leave(self) -> None:
        """Let others have the place at once."""
        if not self._member_id:
            return
        me = MemberIdentity(member_id=self._member_id, group_instance_id=self._instance, reason="the worker ends")
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._coordinators.ask(
                    Kind.GROUP,
                    self._id,
                    LeaveGroupRequest(group_id=self._id, member_id=self._member_id, members=[me]),
                    LeaveGroupResponse,
                    lambda answer: [answer.error_code],
                )
        except (OSError, ProtocolError):
            pass

    async def _others(self, *, is_replaced: bool = False) -> list[str]:
        """Who else is in the group, in words; that is, of another folder, unless we ourselves are replaced."""
        answer = await self._coordinators.ask(
            Kind.GROUP,
            self._id,
            DescribeGroupsRequest(groups=[self._id]),
            DescribeGroupsResponse,
            lambda answer: [row.error_code for row in answer.groups],
        )
        [row] = answer.groups
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return []
        check(row.error_code, row.error_message or f"group {self._id!r}")
        is_ours = row.protocol_data == PROTOCOL
        return [
            f"worker {bytes(each.member_metadata).decode(errors='replace')}"
            if is_ours
            else f"{each.client_id} at {each.client_host.lstrip('/')}"
            for each in row.members
            if each.group_instance_id != self._instance or (is_replaced and each.member_id != self._member_id)
        ]

    async def _join(self) -> None:
        """Be in the group's next generation, alone: who meets another there, and was not first, leaves."""
        while True:
            answer = await self._ask_to_join()
            code = error_of(answer.error_code)
            if code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                raise self._taken(await self._others())
            if code is ErrorCode.FENCED_INSTANCE_ID:
                raise self._taken(await self._others(is_replaced=True))
            if code is ErrorCode.MEMBER_ID_REQUIRED or code in _REJOIN:
                self._member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else answer.member_id or self._member_id
                continue
            check(code, f"group {self._id!r}")
            self._member_id, self._generation = answer.member_id, answer.generation_id
            is_first = answer.leader == self._member_id
            if not is_first and (others := await self._others()):
                await self.leave()
                raise self._taken(others)
            code = await self._sync(answer, is_first=is_first and not answer.skip_assignment)
            if code not in _REJOIN:
                check(code, f"group {self._id!r}")
                return

    async def _ask_to_join(self) -> JoinGroupResponse:
        return await self._coordinators.ask(
            Kind.GROUP,
            self._id,
            JoinGroupRequest(
                group_id=self._id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._member_id,
                group_instance_id=self._instance,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._worker_id.encode())],
            ),
            JoinGroupResponse,
            lambda answer: [answer.error_code],
            waits_s=REBALANCE_TIMEOUT_MS / 1000,
        )

    async def _sync(self, joined: JoinGroupResponse, *, is_first: bool) -> ErrorCode:
        members = joined.members if is_first else []
        answer = await self._coordinators.ask(
            Kind.GROUP,
            self._id,
            SyncGroupRequest(
                group_id=self._id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=[SyncGroupRequestAssignment(member_id=it.member_id, assignment=b"") for it in members],
            ),
            SyncGroupResponse,
            lambda answer: [answer.error_code],
            waits_s=REBALANCE_TIMEOUT_MS / 1000,
        )
        return error_of(answer.error_code)

    async def _beat(self) -> ErrorCode:
        answer = await self._coordinators.ask(
            Kind.GROUP,
            self._id,
            HeartbeatRequest(
                group_id=self._id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._instance,
            ),
            HeartbeatResponse,
            lambda answer: [answer.error_code],
        )
        return error_of(answer.error_code)

    def _taken(self, others: list[str]) -> PipelineError:
        who = others[0] if others else "somebody else"
        return PipelineError(f"--group {self._group}: {who} works on it, and one at a time does")
