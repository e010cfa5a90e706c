"""What connectors to PostgreSQL share: connections, types, statements, and the language of logical replication."""
