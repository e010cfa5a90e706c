"""The application API, over confluent-kafka: ``millstream`` itself re-exports it, and docs/api.md explains it."""
