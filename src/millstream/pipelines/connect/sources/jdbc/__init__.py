"""Rows of tables, or of a query, as records: all of them time and again, or those that are new by a number or a time.

Options, offsets and records are those of Confluent's JDBC source.  A row that a transaction under way wrote is waited
for: nothing behind it is read before that transaction has ended, so none is passed over by its number.  (What a
transaction draws a number for and writes only later cannot be seen; change capture is for that.)
"""

from millstream.pipelines.connect.sources.jdbc.source import JdbcSource

__all__ = ["JdbcSource"]
