"""Small files that say whose a directory or a partition's folder is: ``meta.properties``, ``partition.metadata``."""

from typing import NamedTuple

from millstream.model.ids import Uuid, uuid_from_text, uuid_text

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
_SHARED = "registry=shared"


class DamagedMeta(ValueError):
    """Such a file that does not read as one."""


class MetaProperties(NamedTuple):
    """The broker and cluster a log directory belongs to, and its own id."""

    broker_id: int
    cluster_id: str
    directory_id: Uuid | None = None
    #: Whether brokers share the cluster's registry; else it is in a file beside the logs.
    is_shared: bool = False

    def encode(self) -> bytes:
        lines = [f"broker.id={self.broker_id}", f"cluster.id={self.cluster_id}"]
        if self.directory_id is not None:
            lines.append(f"directory.id={uuid_text(self.directory_id)}")
        if self.is_shared:
            lines.append(_SHARED)
        return "\n".join(["#", *lines, "version=0", ""]).encode()

    @classmethod
    def decode(cls, data: bytes) -> "MetaProperties":
        """What ``encode``, or Apache Kafka at version 0 or 1, wrote."""
        try:
            lines = [line.strip() for line in data.decode().splitlines()]
            fields = dict(line.split("=", 1) for line in lines if line and not line.startswith(("#", "!")))
            broker_id = int(fields.get("broker.id", fields.get("node.id", "")))
            directory_id = fields.get("directory.id")
            return cls(
                broker_id,
                fields["cluster.id"],
                uuid_from_text(directory_id) if directory_id is not None else None,
                _SHARED in lines,
            )
        except (ValueError, KeyError) as error:
            raise DamagedMeta(f"it does not say which broker and cluster it is of: {error}") from error


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """The file that says which topic a folder belongs to."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> Uuid:
    """The topic id that such a file names."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        if fields["version"] != "0":
            raise DamagedMeta(f"version {fields['version']!r}, only '0' is known")
        return uuid_from_text(fields["topic_id"])
    except (ValueError, KeyError) as error:
        raise DamagedMeta(f"it names no topic id: {error}") from error
