"""Whether a write that went unanswered was done: told from the nodes that it would have changed."""

from collections.abc import Mapping, Sequence

from millstream.registry.tree import NO_SESSION, Check, Create, Delete, Node, Op


def was_done(ops: Sequence[Op], nodes: Mapping[str, Node | None], before_zxid: int, session_id: int) -> bool:
    """Whether ``nodes``, read since, are what ``ops`` leave, all changed by one transaction after ``before_zxid``.

    Another's write of exactly the same is taken for ours, and ours that somebody has overwritten since is not known
    again: then it is repeated, and refused by the versions it names.  Sequence nodes are never known again.
    """
    changes = [op for op in ops if not isinstance(op, Check)]
    if not changes or any(isinstance(op, Create) and op.sequence for op in changes):
        return False
    owners = {op.path: session_id if op.ephemeral else NO_SESSION for op in changes if isinstance(op, Create)}
    left = {op.path: None if isinstance(op, Delete) else op.data for op in changes}
    zxids = set()
    for path, data in left.items():
        node = nodes[path]
        if node is None or data is None:
            if node is not None or data is not None:
                return False
            continue
        if node.data != data or node.ephemeral_owner != owners.get(path, node.ephemeral_owner):
            return False
        zxids.add(node.mzxid)
    return len(zxids) <= 1 and all(zxid > before_zxid for zxid in zxids)
