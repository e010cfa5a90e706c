"""The connector: plans how far to read, reads rows and changes, and moves its slot on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from millstream.model.clock import Clock, SystemClock
from millstream.pipelines.connect.base import Offset, Partition, Source
from millstream.pipelines.connect.errors import ConnectError, Misconfigured, Unreachable
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.places import COUNT, TEXT, unlike
from millstream.pipelines.connect.postgres import sql
from millstream.pipelines.connect.postgres.catalog import Catalog, Column, Table
from millstream.pipelines.connect.postgres.pgoutput import Begin, Commit, Message, Relation, Truncate, lsn_text
from millstream.pipelines.connect.postgres.types import Mapping as TypeMapping
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sources.postgres import options
from millstream.pipelines.connect.sources.postgres.envelope import Origin, Style, TableEnvelopes
from millstream.pipelines.connect.sources.postgres.slot import Slot
from millstream.pipelines.connect.sources.postgres.snapshot import Touched, Visible

#: What a refusal to let us in holds -> the option to blame.
BLAMED = (
    ("password", options.SECRET.name),
    ("role ", options.USER.name),
    ("database ", options.NAME.name),
)

#: While only others write, the slot is moved on so often, and sooner behind so much of the server's log, for what lies
#: before its place is gone through each time.
IDLE_S = 60.0
IDLE_BYTES = 16 << 20
ANEW = "reset the connector's offsets for a new snapshot"
#: What those who run servers for others give in place of REPLICATION.
MANAGED_ROLES = ("rds_replication", "rds_superuser", "cloudsqlsuperuser", "azure_pg_admin")
RIGHTS = """
SELECT current_setting('wal_level'), EXISTS (
    SELECT FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolreplication)
    OR rolname = ANY(%s) AND pg_has_role(current_user, oid, 'member')
)
"""


class PostgresSource(Source):
    """Brings the rows and changes of tables, in the order of their commits."""

    options = options.OPTIONS

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        super().__init__(config)
        self._clock = clock or SystemClock()
        database = options.database(config)
        #: Two, for one is busy giving changes or rows while the other is asked about tables.
        self._session, self._aside = database.session(), database.session()
        self._slot = Slot(self._session, config[options.SLOT], config[options.PUBLICATION])
        self._catalog = Catalog(self._aside)
        self._choice = options.Choice(config)
        self._is_widened = False
        self._idle_s: float | None = None
        self._style = Style(
            config[options.PREFIX],
            config[options.NAME],
            TypeMapping(
                decimals=config[options.DECIMALS],
                times="connect" if config[options.TIMES] == "connect" else "adaptive",
                names_text=True,
                unlimited="variable",
            ),
            config[options.TOMBSTONES],
            frozenset(config[options.SKIPPED]),
            config[options.PLACEHOLDER],
        )

    def close(self) -> None:
        self._session.close()
        self._aside.close()

    # Whether it can work.

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        with closing(cls(config)) as source:
            try:
                return source._unfit()
            except Unreachable:
                return {}  # Not the config's fault for all we know: it is tried again and again.
            except ConnectError as error:
                text = str(error)
                return {next((name for mark, name in BLAMED if mark in text), options.HOST.name): text}

    @classmethod
    def check_place(cls, partition: Partition, offset: Offset) -> str:
        fields = {"lsn": COUNT, "table": TEXT} if offset.get("snapshot") else {"lsn": COUNT}
        return unlike("partition", partition, {"server": TEXT}) or unlike("offset", offset, fields)

    def _unfit(self) -> dict[str, str]:
        ((level, may_replicate),) = self._aside.rows(RIGHTS, (list(MANAGED_ROLES),))
        if level != "logical":
            return {options.HOST.name: f"the server's wal_level is {level}; it must be logical"}
        if not may_replicate:
            return {options.USER.name: f"{self.config[options.USER]} may not replicate: ALTER ROLE … REPLICATION"}
        if self.config[options.TABLES] and not self._chosen():
            return {options.TABLES.name: "no table matches"}
        if self.config[options.AUTOCREATE] == "disabled" and not self._slot.is_published():
            return {options.PUBLICATION.name: f"there is no publication {self._slot.publication}, and none is made"}
        try:
            self._slot.position()
        except Misconfigured as error:
            return {options.SLOT.name: str(error)}
        return {}

    def _chosen(self) -> list[tuple[str, str]]:
        return [name for name in self._catalog.names() if self._choice.has(*name)]

    # How far to read.

    def partitions(self) -> Sequence[Partition]:
        return [{"server": self.config[options.PREFIX]}]

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        if start is None:
            lsn = self._begun()
            if self.config[options.SNAPSHOT] in options.NEVER:
                return {"lsn": lsn}
            return self._next_rows({"lsn": lsn, "snapshot": True, "table": ""}, limit)
        if not start.get("snapshot") and self.config[options.SNAPSHOT] == options.INITIAL_ONLY:
            self._slot.drop()
            return start
        self._widen()
        position = self._held(start["lsn"])
        return self._next_rows(start, limit) if start.get("snapshot") else self._next_changes(start, position, limit)

    def _begun(self) -> int:
        """A slot that keeps everything from now on, or from when it was made; what is published comes first."""
        mode = self.config[options.AUTOCREATE]
        if mode == "filtered":
            self._slot.publish(self._chosen())
        elif mode == "all_tables":
            self._slot.publish(None)
        position = self._slot.position()
        return self._slot.create() if position is None else position

    def _widen(self) -> None:
        """Publish the tables that the config means by now, and did not when the publication was made."""
        if not self._is_widened and self.config[options.AUTOCREATE] == "filtered" and self._slot.is_published():
            self._slot.publish(self._chosen())
        self._is_widened = True

    def _held(self, lsn: int) -> int:
        """Where the slot is; Misconfigured unless it gives everything behind ``lsn``, which nobody else moves it to."""
        position, name = self._slot.position(), f"slot.name: the slot {self._slot.name}"
        if position is None:
            raise Misconfigured(f"{name} is gone, and with it the changes since; {ANEW}")
        if position > lsn:
            raise Misconfigured(
                f"{name} begins at {lsn_text(position)}, and changes were read up to {lsn_text(lsn)}: "
                f"it was made again, or moved on by somebody else, and what is between is lost; {ANEW}"
            )
        return position

    def _next_changes(self, start: Offset, position: int, limit: int) -> Offset:
        end = self._slot.end()
        if end < start["lsn"]:
            raise Misconfigured(
                f"database.hostname: changes were read up to {lsn_text(start['lsn'])}, and the server's log ends at "
                f"{lsn_text(end)}: it is another server, or was brought back to an earlier time; {ANEW}"
            )
        if position < start["lsn"]:
            # A server that crashed may forget how far the slot was. A batch only starts behind what is safe.
            self._slot.advance(start["lsn"])
        passed_bytes = end - start["lsn"]
        if not passed_bytes:
            return start
        commits = [lsn for lsn in self._slot.commits(end, limit) if lsn > start["lsn"]]
        if commits:
            return {"lsn": commits[-1]}
        # Others write, and nothing of it is ours: the server need not keep that, and no heartbeat is needed.
        now_s = self._clock.monotonic_s()
        if self._idle_s is not None and now_s - self._idle_s < IDLE_S and passed_bytes < IDLE_BYTES:
            return start
        self._idle_s = now_s
        return {"lsn": end}

    def committed(self, partition: Partition, end: Offset) -> None:
        if not end.get("snapshot"):
            self._slot.advance(end["lsn"])

    # Rows that are there.

    def _tables(self) -> list[Table]:
        """The tables to be read, in one order for ever."""
        names = [name for name in self._slot.published() if self._choice.has(*name)]
        found = (self._catalog.table(*name) for name in names)
        return sorted((table for table in found if table is not None), key=_name)

    def _next_rows(self, start: Offset, limit: int) -> Offset:
        """The end of the next so many rows: within a table, behind it, or, at the end, where changes begin."""
        left = limit
        for table, key in self._rest(start):
            if not table.key:
                # Nothing to stop at within: all of it, and nothing else.
                return self._behind(start, table) if left == limit else start
            expressions, casts = _order(table)
            conditions = [sql.behind(expressions, casts)] if key is not None else []
            rows = self._aside.rows(sql.last_of(table.sql, expressions, conditions, counted=True), [*(key or ()), left])
            if rows:
                *last, count = rows[0]
                if count >= left:
                    return {**start, "table": _name(table), "key": last}
                left -= count
            start = self._behind(start, table)
        return {"lsn": start["lsn"]}

    def _rest(self, start: Offset) -> Iterator[tuple[Table, Sequence[str] | None]]:
        """The tables that are not read to their end, and behind which key to go on."""
        for table in self._tables():
            if _name(table) == start["table"] and start.get("key") is not None:
                yield table, start["key"]
            elif _name(table) > start["table"]:
                yield table, None

    @staticmethod
    def _behind(start: Offset, table: Table) -> Offset:
        return {"lsn": start["lsn"], "snapshot": True, "table": _name(table)}

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        if start is not None and not start.get("snapshot"):
            return self._changes(start["lsn"], end["lsn"])
        if self.config[options.SNAPSHOT] in options.NEVER:
            return ()
        return self._rows(start or {"lsn": end["lsn"], "snapshot": True, "table": ""}, end)

    def _rows(self, start: Offset, end: Offset) -> Iterator[Record]:
        pieces = []
        for table, key in self._rest(start):
            if end.get("snapshot") and _name(table) > end["table"]:
                break
            last = end.get("key") if end.get("table") == _name(table) else None
            pieces.append((table, key, last))
        with closing(options.database(self.config).session()) as frozen:
            frozen.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((seen, at_us),) = frozen.rows(
                "SELECT txid_current_snapshot()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            )
            touched = self._touched(Visible.parse(seen), [table for table, _, _ in pieces])
            origin = Origin(at_us, end["lsn"], is_snapshot=True)
            for table, key, last in pieces:
                envelopes = self._envelopes(table.schema, table.name, table.columns, table.key)
                expressions, casts = _order(table)
                conditions = [sql.behind(expressions, casts)] if key is not None else []
                conditions += [sql.up_to(expressions, casts)] if last is not None else []
                ordered = f" ORDER BY {', '.join(expressions)}" if expressions else ""
                columns = sql.listed([column.name for column in table.columns])
                statement = f"SELECT {columns} FROM {table.sql}{sql.where(conditions)}{ordered}"
                for texts in frozen.texts(statement, [*(key or ()), *(last or ())], _name(table)):
                    if not touched[table.oid].takes(texts):
                        yield envelopes.row(texts, origin)

    def _touched(self, visible: Visible, tables: Sequence[Table]) -> dict[int, Touched]:
        """What the slot gives of that which is visible."""
        touched = {table.oid: Touched(table) for table in tables}
        relations: dict[int, Relation] = {}
        is_visible = False
        for _, message in self._slot.messages(self._slot.end(mark=True)):
            if isinstance(message, Begin):
                is_visible = visible.has(message.xid)
            elif isinstance(message, Relation):
                relations[message.oid] = message
            elif is_visible and not isinstance(message, Commit | Truncate) and message.relation_oid in touched:
                touched[message.relation_oid].add(message, relations[message.relation_oid])
        return touched

    # Changes.

    def _changes(self, start_lsn: int, end_lsn: int) -> Iterator[Record]:
        """Of all transactions whose commits are written from ``start_lsn`` up to ``end_lsn``; both are ends of some."""
        envelopes: dict[int, TableEnvelopes] = {}
        begin: Begin | None = None
        last_commit_lsn: int | None = None
        for lsn, message in self._slot.messages(end_lsn):
            if isinstance(message, Begin):
                begin = message
            elif isinstance(message, Commit):
                last_commit_lsn = message.commit_lsn
            elif isinstance(message, Relation):
                envelopes.pop(message.oid, None)
                if self._choice.has(message.schema, message.table):
                    envelopes[message.oid] = self._described(message)
            elif begin is not None and start_lsn <= begin.final_lsn < end_lsn:
                origin = Origin(begin.at_us, lsn, begin.xid, last_commit_lsn)
                yield from _records(message, envelopes, origin)

    def _described(self, relation: Relation) -> TableEnvelopes:
        """A table as it was at the change; what that does not say, from what it is now."""
        now = self._catalog.table(relation.schema, relation.table)
        self._catalog.learn([column.type_oid for column in relation.columns])
        columns = []
        for column in relation.columns:
            kind = self._catalog.kind(column.type_oid, column.type_modifier)
            known = now.column(column.name) if now is not None and now.oid == relation.oid else None
            columns.append(Column(column.name, kind, known is None or known.kind != kind or known.is_optional))
        names = {column.name for column in relation.columns}
        key = tuple(column.name for column in relation.columns if column.is_identity)
        if now is not None and now.key and names.issuperset(now.key):
            key = now.key  # In its own order, and where the identity is the whole row.
        elif relation.identity == "f":
            key = ()
        return self._envelopes(relation.schema, relation.table, columns, key)

    def _envelopes(self, schema: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> TableEnvelopes:
        return TableEnvelopes(schema, table, columns, key, self._style, lambda: self._clock.now_ms() * 1000)


def _records(message: Message, envelopes: Mapping[int, TableEnvelopes], origin: Origin) -> Iterator[Record]:
    if isinstance(message, Begin | Commit | Relation):
        return
    oids = message.relation_oids if isinstance(message, Truncate) else (message.relation_oid,)
    for oid in oids:
        if oid in envelopes:
            yield from envelopes[oid].change(message, origin)


def _name(table: Table) -> str:
    return f"{table.schema}.{table.name}"


def _order(table: Table) -> tuple[list[str], list[str]]:
    """The primary key's columns, and what text is cast to to be compared with them."""
    kinds: list[Any] = [column.kind for name in table.key if (column := table.column(name)) is not None]
    return [sql.quoted(name) for name in table.key], [f"text::{sql.quoted(kind.name)}" for kind in kinds]
