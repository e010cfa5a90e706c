"""Settings as tables: of the broker, of its topics, and where their values come from."""
