"""A processor of one's own: state and timers for each key, in Python."""

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import StructField, StructType, TimestampType

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.folding import from_micros
from millstream.pipelines.streams.keyed import AT, Keyed, State, fields_of, made, run, with_time
from millstream.pipelines.streams.schema import columns
from millstream.pipelines.streams.stream import TIME, Stream

#: Whose clock timers follow -> Spark's name for it.
TIMERS = {"none": "none", "event": "eventTime", "processing": "processingTime"}


class Context:
    """What a processor has at hand for the current key."""

    def __init__(self, state: State, handle: StatefulProcessorHandle, now_ms: int) -> None:
        self._state, self._handle = state, handle
        #: The watermark for event timers, the clock for processing timers; before 1970 while there is none.
        self.now = datetime.fromtimestamp(max(now_ms, -1) / 1000, UTC)

    def get(self) -> dict[str, Any] | None:
        """The state's fields, or None."""
        return self._state.get()

    def set(self, **fields: Any) -> None:
        """Keep these; every field of the state's schema must be there."""
        self._state.set(fields)

    def clear(self) -> None:
        """Keep nothing for this key."""
        self._state.clear()

    def set_timer(self, at: datetime) -> None:
        """Call ``on_timer`` once the watermark, or the clock, has passed it; whole milliseconds."""
        self._handle.registerTimer(_ms(at))

    def cancel_timer(self, at: datetime) -> None:
        """Do not call for that time."""
        self._handle.deleteTimer(_ms(at))


class Processor(ABC):
    """Subclass it: ``output`` and ``state`` are columns in DDL; what the methods give are dicts of output columns.

    The key and ``_timestamp`` (the row's, or the timer's) are put beside them. ``timers`` is "none", "event" or
    "processing". An instance is copied to every worker.
    """

    output: str
    state: str = "nothing boolean"
    timers: str = "none"

    def on_row(self, key: tuple[Any, ...], row: Row, context: Context) -> Iterable[Mapping[str, Any]]:
        """A row, in order of time among those of one micro-batch."""
        return ()

    def on_timer(self, key: tuple[Any, ...], at: datetime, context: Context) -> Iterable[Mapping[str, Any]]:
        """A timer that was set for this key."""
        return ()


class _Adapter(Keyed):
    """A Processor as Spark wants it."""

    def __init__(self, processor: Processor, keys: tuple[str, ...], state: StructType, output: list[str]) -> None:
        self._processor, self._keys, self._schema, self._output = processor, keys, state, output

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = State(handle, "state", self._schema)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        context = self._context(timerValues)
        for row in sorted(rows, key=lambda row: int(row[AT])):
            for given in self._processor.on_row(tuple(key), row, context):
                yield self._row(key, from_micros(row[AT]), given)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        at = from_micros(expiredTimerInfo.getExpiryTimeInMs() * 1000)
        for given in self._processor.on_timer(tuple(key), at, self._context(timerValues)):
            yield self._row(key, at, given)

    def _context(self, timer_values: TimerValues) -> Context:
        of_event = self._processor.timers == "event"
        read = timer_values.getCurrentWatermarkInMs if of_event else timer_values.getCurrentProcessingTimeInMs
        return Context(self._state, self._handle, read() if self._processor.timers != "none" else -1)

    def _row(self, key: Any, time: datetime, given: Mapping[str, Any]) -> Row:
        unknown = set(given) - set(self._output)
        if unknown:
            raise ValueError(f"process: {', '.join(sorted(unknown))} is not in the output {', '.join(self._output)}")
        return made(self._output, {**dict(zip(self._keys, key, strict=True)), TIME: time, **given})


def process(stream: Stream, processor: Processor) -> Stream:
    """The rows that the processor gives."""
    if processor.timers not in TIMERS:
        raise StreamsError(f"timers={processor.timers!r}: one of {', '.join(TIMERS)}")
    if processor.timers == "event":
        stream.needs_watermark("process with event timers")
    values = columns(processor.output)
    state = columns(processor.state)
    keys = [field for field in fields_of(stream.df, stream.keys) if field.name not in values.names]
    output = StructType([*keys, *values.fields, StructField(TIME, TimestampType())])
    adapter = _Adapter(processor, stream.keys, state, output.names)
    timed = processor.timers == "event"
    mode = TIMERS[processor.timers]
    df = run(with_time(stream.df), stream.keys, adapter, output, mode, TIME if timed else "")
    return replace(stream, df=df, lateness=stream.lateness if timed else None, final=None)


def _ms(moment: datetime) -> int:
    """A datetime without a zone is the worker's local time."""
    return int(moment.timestamp() * 1000)
