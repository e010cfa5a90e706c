"""Records sent to other topics, or nowhere."""

from dataclasses import replace

from millstream.config.setting import STRING, Check
from millstream.pipelines.connect.dates import DateFormat, is_date_format
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.patterns import compile_pattern, is_pattern, replaced
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.transforms.base import Transform


class Filter(Transform):
    """Every record that gets here is let go; a predicate says which do."""

    def apply(self, record: Record) -> None:
        return None


class RegexRouter(Transform):
    """A topic whose name matches is changed for another."""

    REGEX = Option[str](
        "regex",
        STRING,
        default=REQUIRED,
        check=Check("a regular expression", is_pattern),
        doc="A regular expression for the whole name of a topic.",
        importance="HIGH",
    )
    REPLACEMENT = Option[str](
        "replacement", STRING, default=REQUIRED, doc="The new name; $1 is what the first group has.", importance="HIGH"
    )
    options = (REGEX, REPLACEMENT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._pattern = compile_pattern(config[self.REGEX])
        self._replacement = config[self.REPLACEMENT]

    def apply(self, record: Record) -> Record:
        topic = record.topic
        if not self._pattern.fullmatch(topic):
            return record
        # As Java does it: the first match is replaced, which need not be the whole name that was asked for.
        match = self._pattern.search(topic)
        assert match is not None
        try:
            new = replaced(match, self._replacement)
        except IndexError as error:
            raise DataError(f"replacement={self._replacement}: {error}") from error
        return replace(record, topic=topic[: match.start()] + new + topic[match.end() :])


class TimestampRouter(Transform):
    """The topic's name is made of the old one and the record's timestamp."""

    TOPIC_FORMAT = Option[str](
        "topic.format",
        STRING,
        default="${topic}-${timestamp}",
        doc="The new name, with ${topic} and ${timestamp} in it.",
        importance="HIGH",
    )
    TIMESTAMP_FORMAT = Option[str](
        "timestamp.format",
        STRING,
        default="yyyyMMdd",
        check=Check("a pattern of java.text.SimpleDateFormat", is_date_format),
        doc="How the timestamp is written, in the letters of java.text.SimpleDateFormat; in UTC.",
        importance="HIGH",
    )
    options = (TOPIC_FORMAT, TIMESTAMP_FORMAT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._topic_format = config[self.TOPIC_FORMAT]
        self._timestamp_format = DateFormat(config[self.TIMESTAMP_FORMAT])

    def apply(self, record: Record) -> Record:
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: {record}")
        written = self._timestamp_format.format(record.timestamp_ms)
        topic = self._topic_format.replace("${topic}", record.topic).replace("${timestamp}", written)
        return replace(record, topic=topic)
