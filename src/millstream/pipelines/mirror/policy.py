"""What a mirrored topic is called, which topics are our own, and which would come back to where they are from.

The names are MirrorMaker 2's, to the letter. Pure.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

HEARTBEATS = "heartbeats"
DEFAULT_SEPARATOR = "."
_PACKAGE = "org.apache.kafka.connect.mirror."


@dataclass(frozen=True, slots=True)
class DefaultPolicy:
    """A mirrored topic has its cluster's name before its own: ``A.orders``."""

    separator: str = DEFAULT_SEPARATOR
    #: Between the parts of the names of our own topics.
    internal_separator: str = DEFAULT_SEPARATOR

    def remote_topic(self, source: str, topic: str) -> str:
        """What a topic of ``source`` is called elsewhere."""
        return f"{source}{self.separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """Which cluster a topic was mirrored from; None for one that was not."""
        parts = topic.split(self.separator)
        return parts[0] if any(parts[1:]) else None

    def upstream_topic(self, topic: str) -> str | None:
        """What it is called in the cluster it was mirrored from."""
        source = self.source_of(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether the topic is from ``target``, over however many clusters it came."""
        source, upstream = self.source_of(topic), self.upstream_topic(topic)
        if source is None or source == target:
            return source == target
        return upstream is not None and upstream != topic and self.is_cycle(upstream, target)

    def offset_syncs_topic(self, alias: str) -> str:
        """Where it is kept which offset became which."""
        return self.internal_separator.join(("mm2-offset-syncs", alias, "internal"))

    def checkpoints_topic(self, alias: str) -> str:
        """Where the offsets of the groups of ``alias`` are kept, as they are elsewhere."""
        return self.internal_separator.join((alias, "checkpoints", "internal"))

    def is_heartbeats(self, topic: str) -> bool:
        """Whether these are heartbeats, of here or mirrored."""
        upstream = self.upstream_topic(topic)
        return topic == HEARTBEATS or (upstream is not None and upstream != topic and self.is_heartbeats(upstream))

    def is_internal(self, topic: str) -> bool:
        """Whether it belongs to a cluster, or to whoever mirrors it: such topics stay where they are."""
        ending = f"{self.internal_separator}internal"
        is_ours = topic.startswith("mm2") or topic.endswith(f"{self.internal_separator}checkpoints{ending}")
        return topic.startswith(("__", ".")) or (is_ours and topic.endswith(ending))


@dataclass(frozen=True, slots=True)
class IdentityPolicy(DefaultPolicy):
    """Topics keep their names, but for heartbeats. What was mirrored cannot be told from what was not."""

    #: The cluster that topics are from, where only one can be meant.
    source: str | None = None

    def remote_topic(self, source: str, topic: str) -> str:
        return DefaultPolicy.remote_topic(self, source, topic) if _looks_like_heartbeats(topic) else topic

    def source_of(self, topic: str) -> str | None:
        return DefaultPolicy.source_of(self, topic) if _looks_like_heartbeats(topic) else self.source

    def upstream_topic(self, topic: str) -> str | None:
        return DefaultPolicy.upstream_topic(self, topic) if _looks_like_heartbeats(topic) else topic


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS)


#: By the names that `replication.policy.class` may have.
POLICIES: dict[str, type[DefaultPolicy]] = {
    f"{package}{name}": policy
    for package in ("", _PACKAGE)
    for name, policy in (("DefaultReplicationPolicy", DefaultPolicy), ("IdentityReplicationPolicy", IdentityPolicy))
}


class Patterns:
    """A list of names and regular expressions, each of which must match the whole; re.error for one that is none."""

    def __init__(self, patterns: Iterable[str]) -> None:
        wanted = [f"(?:{pattern})" for pattern in patterns if pattern]
        self._pattern = re.compile("|".join(wanted)) if wanted else None

    def __contains__(self, name: str) -> bool:
        return self._pattern is not None and self._pattern.fullmatch(name) is not None


class Choice:
    """Names that are wanted and not excluded."""

    def __init__(self, wanted: Iterable[str], excluded: Iterable[str]) -> None:
        self._wanted, self._excluded = Patterns(wanted), Patterns(excluded)

    def __contains__(self, name: str) -> bool:
        return name in self._wanted and name not in self._excluded
