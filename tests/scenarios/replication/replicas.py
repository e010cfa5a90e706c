"""Commands for scenarios of replication: three replicas of one partition, whose controller and network is the script.

told 1 2 3 leader=2 epoch=1 isr=2,3 version=1      these brokers hear the controller
write 1 a b                                        whoever believes to lead takes records
fetch 2 [times=3]                                  a follower fetches and takes what comes
ask 2 / take 2                                     the same in two steps
pass 30001                                         so many milliseconds go by
propose 1 / grant 1 version=2 / refuse 1 CODE      a leader asks for another in-sync set, and hears of it
restart 2 watermark=0                              a broker is killed and comes back
show                                               everyone's log and marks
"""

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.fetch import PartitionData
from millstream.replication.following.followed import Followed
from millstream.replication.following.place import State
from millstream.replication.role import Part
from tests.scenarios.script import Command
from tests.unit.replication.node import Node
from tests.unit.replication.replica import REPLICAS
from tests.unit.storage.ground import SetClock, batch

LAG_MS = 30_000


class Replicas:
    """Brokers 1 to 3 and their replicas."""

    def __init__(self) -> None:
        self._clock = SetClock()
        self._nodes = {id_: Node(id_, self._clock, min_insync_replicas=2) for id_ in REPLICAS}

    async def perform(self, command: Command) -> list[str]:
        printed: list[str] = getattr(self, f"_{command.name}")(command)
        return printed

    def _nodes_of(self, command: Command) -> list[Node]:
        return [self._nodes[int(word)] for word in command.arguments if word.isdigit()]

    # The controller.

    def _told(self, command: Command) -> list[str]:
        isr = tuple(int(id_) for id_ in command.options["isr"].split(","))
        leader, epoch = int(command.options["leader"]), int(command.options["epoch"])
        for node in self._nodes_of(command):
            before = node.partition.role.leadership.leader_epoch
            node.replica.told(leader, epoch, isr, int(command.options["version"]))
            if node.partition.role.part is Part.LEADER:
                node.followed = None
            elif node.followed is None or epoch > before:
                node.followed = Followed(node.partition, 1_000)
        return ["ok"]

    def _propose(self, command: Command) -> list[str]:
        (node,) = self._nodes_of(command)
        role = node.partition.role
        assert role.leading is not None
        node.proposal = role.leading.propose(
            role.leadership.leader_epoch,
            role.leadership.partition_epoch,
            node.life,
            node.partition.high_watermark,
            node.replica.log.end_offset,
            self._clock.ms,
            LAG_MS,
            node.replica.log.config.min_insync_replicas,
        )
        if node.proposal is None:
            return ["nothing"]
        return [f"in sync {[replica for replica, _ in node.proposal.isr]} at version {node.proposal.partition_epoch}"]

    def _grant(self, command: Command) -> list[str]:
        (node,) = self._nodes_of(command)
        assert node.proposal is not None
        isr = tuple(replica for replica, _ in node.proposal.isr)
        version = int(command.options["version"])
        is_news = node.partition.role.granted(node.proposal, isr, version, self._clock.ms, ())
        node.partition.in_sync_changed()
        return ["ok" if is_news else "out of date"]

    def _refuse(self, command: Command) -> list[str]:
        (node,) = self._nodes_of(command)
        assert node.proposal is not None and node.partition.role.leading is not None
        code = ErrorCode[command.arguments[1]]
        node.partition.role.leading.refused(node.proposal, code, self._clock.ms)
        node.partition.in_sync_changed()
        return ["ok"]

    def _pass(self, command: Command) -> list[str]:
        self._clock.ms += int(command.arguments[0])
        return ["ok"]

    # Brokers.

    def _write(self, command: Command) -> list[str]:
        node = self._nodes[int(command.arguments[0])]
        acks = int(command.options.get("acks", "1"))
        printed = []
        for value in command.arguments[1:]:
            try:
                outcome = node.replica.write(batch(1, value=value.encode()), acks=acks)
                printed.append(f"{value} at {outcome.first_offset}")
            except ProtocolError as refusal:
                printed.append(refusal.code.name)
        return printed

    def _delete(self, command: Command) -> list[str]:
        node, offset = self._nodes[int(command.arguments[0])], int(command.arguments[1])
        return [f"it starts at {node.partition.delete_records(offset)}"]

    def _ask(self, command: Command) -> list[str]:
        (node,) = self._nodes_of(command)
        assert node.followed is not None
        place = node.followed.place
        place.resume(self._clock.ms)
        leader = self._nodes[node.partition.role.leadership.leader]
        if place.state is State.ASTRAY:
            log = leader.replica.log
            node.followed.bounded((log.start_offset, log.end_offset), self._clock.ms)
            return [f"the leader has {log.start_offset} to {log.end_offset}"]
        if place.state is not State.FETCHING:
            return [place.state.value]
        row = leader.serve(node.replica.id, node.life, place.position)
        node.answer = None if row is None else (place.position, row)
        asked = f"from {place.position.offset} after epoch {place.position.last_epoch}"
        return [f"{asked}: {'nothing new' if row is None else told(row)}"]

    def _take(self, command: Command) -> list[str]:
        (node,) = self._nodes_of(command)
        assert node.followed is not None
        answer, node.answer = node.answer, None
        if answer is None or not node.followed.place.is_answered_by(answer[0]):
            return ["it no longer concerns us"]
        node.followed.take(answer[1], self._clock.ms)
        return [self._state(node)]

    def _fetch(self, command: Command) -> list[str]:
        printed = []
        for _ in range(int(command.options.get("times", "1"))):
            printed += self._ask(command)
            (node,) = self._nodes_of(command)
            if node.answer is not None:
                self._take(command)
        return printed

    def _restart(self, command: Command) -> list[str]:
        (node,) = self._nodes_of(command)
        node.replica.files.kill()
        node.replica.start(int(command.options["watermark"]))
        node.life += 1
        node.begin()
        for other in self._nodes.values():
            other.sessions.pop(node.replica.id, None)
        return ["ok"]

    def _show(self, command: Command) -> list[str]:
        return [f"{id_} {self._state(node)}" for id_, node in self._nodes.items()]

    def _state(self, node: Node) -> str:
        values = " ".join((record.value or b"").decode() for record in node.replica.records)
        epochs = " ".join(f"{epoch}@{start}" for epoch, start in node.replica.log.epochs.entries)
        return f"[{values}] epochs {epochs or 'none'} watermark {node.partition.high_watermark}"


def told(row: PartitionData) -> str:
    """An answer in words."""
    if row.error_code:
        return ErrorCode(row.error_code).name
    if row.diverging_epoch is not None:
        return f"epoch {row.diverging_epoch.epoch} ends at {row.diverging_epoch.end_offset}"
    return f"{'records' if row.records else 'no records'}, watermark {row.high_watermark}"
