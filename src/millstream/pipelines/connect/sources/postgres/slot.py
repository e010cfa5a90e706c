"""A replication slot: made with its publication, read as often as one likes, and moved on when what it gave is safe."""

from collections.abc import Iterator, Sequence

from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.postgres.connection import Session
from millstream.pipelines.connect.postgres.pgoutput import Commit, Message, decode, lsn_of, lsn_text
from millstream.pipelines.connect.postgres.sql import quoted

PEEK = """pg_logical_slot_peek_binary_changes(
    %s, %s::pg_lsn, %s::int, 'proto_version', '1', 'publication_names', quote_ident(%s)
)"""
#: Each commit, and how many changes there are before it.
COMMITS = f"""
SELECT data, changes FROM (
    SELECT place, data,
    count(*) FILTER (WHERE chr(get_byte(data, 0)) IN ('I', 'U', 'D', 'T')) OVER (ORDER BY place) AS changes
    FROM {PEEK} WITH ORDINALITY AS peeked(lsn, xid, data, place)
) AS counted WHERE chr(get_byte(data, 0)) = 'C' ORDER BY place
"""
#: The server counts messages: a transaction of one change has four, one that describes the table among them.
MESSAGES = 4
PUBLISHED = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
#: A commit like any other: once it is over, everything before it is on disk, and so is seen by a slot.
MARK = "SELECT pg_logical_emit_message(true, 'millstream', '')"


class Slot:
    """A slot by name, and the publication that says what is in it."""

    def __init__(self, session: Session, name: str, publication: str) -> None:
        self._session = session
        self.name = name
        self.publication = publication

    def is_published(self) -> bool:
        """Whether there is such a publication."""
        return bool(self._session.rows("SELECT FROM pg_publication WHERE pubname = %s", (self.publication,)))

    def publish(self, tables: Sequence[tuple[str, str]] | None) -> None:
        """Make the publication of these tables, or add what it has not; None is all tables, for ever."""
        name = quoted(self.publication)
        if not self.is_published():
            what = "ALL TABLES" if tables is None else f"TABLE {_listed(tables)}"
            # A table in parts is one table to its readers.
            self._session.run(f"CREATE PUBLICATION {name} FOR {what} WITH (publish_via_partition_root = true)")
        elif tables is not None and (missing := [each for each in tables if each not in self.published()]):
            self._session.run(f"ALTER PUBLICATION {name} ADD TABLE {_listed(missing)}")

    def published(self) -> list[tuple[str, str]]:
        """Schema and name of every table in the publication."""
        return [(schema, table) for schema, table in self._session.rows(PUBLISHED, (self.publication,))]

    def position(self) -> int | None:
        """Behind which place it keeps everything; None when there is no such slot."""
        rows = self._session.rows(
            "SELECT confirmed_flush_lsn::text, plugin, database = current_database() "
            "FROM pg_replication_slots WHERE slot_name = %s",
            (self.name,),
        )
        if not rows:
            return None
        ((lsn, plugin, is_here),) = rows
        if plugin != "pgoutput" or not is_here:
            raise Misconfigured(f"slot.name: the slot {self.name} is {plugin}'s, or of another database")
        return lsn_of(lsn)

    def create(self) -> int:
        """Make it; the place behind which it keeps everything.  It waits for transactions that are under way."""
        ((lsn,),) = self._session.rows(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (self.name,)
        )
        return lsn_of(lsn)

    def advance(self, lsn: int) -> None:
        """Nothing up to there is asked for again, so the server may forget it."""
        position = self.position()
        if position is not None and position < lsn:
            self._session.rows("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self.name, lsn_text(lsn)))

    def drop(self) -> None:
        """Nobody asks it for anything any more, and it must not keep the server's log from being cleared."""
        which = "FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
        self._session.rows(f"SELECT pg_drop_replication_slot(slot_name) {which}", (self.name,))

    def end(self, mark: bool = False) -> int:
        """The end of what is on disk; with a ``mark``, of everything that anybody has seen."""
        if mark:
            self._session.rows(MARK)
        ((lsn,),) = self._session.rows("SELECT pg_current_wal_flush_lsn()::text")
        return lsn_of(lsn)

    def commits(self, up_to: int, limit: int) -> list[int]:
        """Where transactions end that are kept, up to a place and about so many changes."""
        rows = self._session.rows(COMMITS, (self.name, lsn_text(up_to), MESSAGES * limit, self.publication))
        ends = []
        for data, changes in rows:
            commit = decode(bytes(data))
            assert isinstance(commit, Commit)
            ends.append(commit.end_lsn)
            if changes >= limit:
                break
        return ends

    def messages(self, up_to: int) -> Iterator[tuple[int, Message]]:
        """Everything it keeps, up to a place and a little more, each with its own place; as often as one likes."""
        parameters = (self.name, lsn_text(up_to), None, self.publication)
        for lsn, data in self._session.texts(f"SELECT lsn, data FROM {PEEK}", parameters, self.name):
            assert lsn is not None and data is not None
            message = decode(bytes.fromhex(data.removeprefix("\\x")))
            if message is not None:
                yield lsn_of(lsn), message


def _listed(tables: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{quoted(schema)}.{quoted(table)}" for schema, table in tables)
