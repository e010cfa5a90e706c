"""Every log of a broker, over its log directories."""

from collections.abc import Callable, Sequence
from random import Random

from millstream.config.topic import TopicConfig
from millstream.model.clock import Clock
from millstream.model.ids import TopicPartition, Uuid
from millstream.storage.directory import LogDirectory
from millstream.storage.files import Files
from millstream.storage.log import Log


class Logs:
    """Finds, makes and removes logs; a failed directory takes only its own with it."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directories: Sequence[str],
        config_for: Callable[[str], TopicConfig],
        random: Random,
    ) -> None:
        self.directories = [LogDirectory(path, files, clock, random) for path in directories]
        self._config_for = config_for
        self._logs: dict[TopicPartition, Log] = {}

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self._logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic_id: Uuid, config: TopicConfig) -> Log:
        """A new log in the directory with the fewest partitions."""
        counts = {directory.path: 0 for directory in self.directories}
        for log in self._logs.values():
            counts[log.directory.path] += 1
        directory = min(self.directories, key=lambda each: counts[each.path])
        log = Log(directory, topic_partition, config, topic_id=topic_id)
        log.create()
        self._logs[topic_partition] = log
        return log
