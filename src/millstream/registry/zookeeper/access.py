"""Who may do what with a node of a shared tree, as Kafka keeps it."""

from enum import Enum


class Access(Enum):
    """What others than the node's maker may do."""

    OPEN = "everything"
    READABLE = "read"
    PRIVATE = "nothing"


#: The nodes of registry consumers, who are not brokers and have no credentials of theirs.
_OPEN_ROOTS = ("/consumers",)
#: Where secrets are kept.
_PRIVATE_ROOTS = ("/config/brokers", "/config/users", "/delegation_token")


def access_of(path: str) -> Access:
    """What holds for a node at ``path`` where nodes are protected at all."""
    if _is_below(path, _OPEN_ROOTS):
        return Access.OPEN
    return Access.PRIVATE if _is_below(path, _PRIVATE_ROOTS) else Access.READABLE


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in roots)
