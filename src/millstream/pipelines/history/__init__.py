"""Topics as tables of SQL, as they are or as they were."""
