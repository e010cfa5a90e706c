"""What changes in a PostgreSQL's tables, by logical replication, in Debezium's envelope and by its options' names.

A slot keeps what has not been read; a snapshot of the tables comes first.  ``source`` is the connector, ``slot`` what
it asks of the server, ``snapshot`` how rows and changes are kept apart, ``envelope`` what records look like.
"""

from millstream.pipelines.connect.sources.postgres.source import PostgresSource

__all__ = ["PostgresSource"]
