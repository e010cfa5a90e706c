"""Whether a broker may join the cluster whose registry it was given: asked before anything is written there."""

from collections.abc import Iterator, Sequence

from millstream.registry.nodes import BROKER, BROKER_IDS, CLUSTER_ID
from millstream.registry.tree import NoNode, Registry
from millstream.storage.directory import DirectoryError
from millstream.storage.files import Files
from millstream.storage.meta import META_PROPERTIES, DamagedMeta, MetaProperties


def check_own(files: Files, directories: Sequence[str]) -> None:
    """DirectoryError for directories of a cluster on ZooKeeper: asked before a registry of our own is made in them.

    With such a one, the broker would take all it has a replica of for its own, and write what nobody else knows of.
    """
    _refuse_parents(files, directories)
    for directory, meta in _known(files, directories):
        if meta.is_shared:
            raise DirectoryError(
                f"{directory} belongs to a cluster on ZooKeeper: "
                "name its registry with --registry zk://HOST:PORT, or another directory"
            )


async def check(
    registry: Registry, broker_id: int, files: Files, directories: Sequence[str], *, is_shared: bool
) -> None:
    """DirectoryError for directories of another broker or cluster, RegistryFailure for a registry we cannot read.

    A registry that is shared and new is not that of directories which know a cluster; one of the broker's own learns
    the cluster from them.
    """
    _refuse_parents(files, directories)
    cluster_id = await _cluster_id(registry)
    await _check_brokers(registry)
    for directory, meta in _known(files, directories):
        if meta.broker_id != broker_id:
            raise DirectoryError(
                f"{directory} belongs to broker {meta.broker_id}, not to broker {broker_id}: "
                f"give this one its id, broker.id={meta.broker_id}, or name another directory"
            )
        if meta.cluster_id != cluster_id and (is_shared or cluster_id is not None):
            held = f"that of cluster {cluster_id}" if cluster_id is not None else "new"
            raise DirectoryError(
                f"{directory} belongs to cluster {meta.cluster_id}, and the registry is {held}: "
                "name the cluster's own registry, or another directory"
            )


async def _cluster_id(registry: Registry) -> str | None:
    try:
        return CLUSTER_ID.decode((await registry.get(CLUSTER_ID.path())).data)
    except NoNode:
        return None


async def _check_brokers(registry: Registry) -> None:
    """Those that run tell which version of the nodes the cluster writes."""
    try:
        names = await registry.children(BROKER_IDS.path())
    except NoNode:
        return
    for name, node in zip(names, await registry.get_many(map(BROKER.path, names)), strict=True):
        if node is not None:
            BROKER.decode(node.data, name)


def _refuse_parents(files: Files, directories: Sequence[str]) -> None:
    """DirectoryError for a folder of brokers' directories, which would be taken for partitions by their names."""
    for directory in directories:
        if files.exists(f"{directory}/{META_PROPERTIES}"):
            continue
        try:
            names = files.list(directory)
        except OSError:
            continue  # It is made when it is opened, or reported then.
        inner = [name for name in names if files.exists(f"{directory}/{name}/{META_PROPERTIES}")]
        if inner:
            raise DirectoryError(
                f"{directory} holds the directories of brokers ({', '.join(inner)}): name one of them, or an empty one"
            )


def _known(files: Files, directories: Sequence[str]) -> Iterator[tuple[str, MetaProperties]]:
    """Whose the directories are, where that is written; one that cannot be read is reported when it is opened."""
    for directory in directories:
        try:
            yield directory, MetaProperties.decode(files.read(f"{directory}/{META_PROPERTIES}"))
        except (OSError, DamagedMeta):
            continue
