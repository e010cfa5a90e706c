"""Streams for PySpark people: typed topics, tables, windows, joins; DataFrames wherever a DataFrame can say it.

docs/streams.md shows each operator once.
"""

from millstream.pipelines.streams.cluster import Cluster
from millstream.pipelines.streams.driver import TestDriver
from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.grouping import Grouped
from millstream.pipelines.streams.process import Context, Processor
from millstream.pipelines.streams.state import read_state, state_operators
from millstream.pipelines.streams.stream import Stream
from millstream.pipelines.streams.table import GlobalTable, Table
from millstream.pipelines.streams.topic import Topic
from millstream.pipelines.streams.windows import Window, hopping, session, sliding, tumbling

__all__ = [
    "Cluster",
    "Context",
    "GlobalTable",
    "Grouped",
    "Processor",
    "Stream",
    "StreamsError",
    "Table",
    "TestDriver",
    "Topic",
    "Window",
    "hopping",
    "read_state",
    "session",
    "sliding",
    "state_operators",
    "tumbling",
]
