"""Predicates: which records a transform concerns."""

from millstream.config.setting import STRING, Check
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.patterns import compile_pattern, is_pattern
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.transforms.base import Predicate


class HasHeaderKey(Predicate):
    """Records with a header of that name."""

    NAME = Option[str]("name", STRING, default=REQUIRED, check=Check("not empty", bool), doc="The name of the header.")
    options = (NAME,)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name = config[self.NAME]

    def test(self, record: Record) -> bool:
        return any(header.name == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """Records without a value."""

    def test(self, record: Record) -> bool:
        return record.value is None


class TopicNameMatches(Predicate):
    """Records of topics whose whole name matches."""

    PATTERN = Option[str](
        "pattern",
        STRING,
        default=REQUIRED,
        check=Check("a regular expression, not empty", lambda text: bool(text) and is_pattern(text)),
        doc="A regular expression for the whole name of a topic.",
    )
    options = (PATTERN,)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._pattern = compile_pattern(config[self.PATTERN])

    def test(self, record: Record) -> bool:
        return self._pattern.fullmatch(record.topic) is not None
