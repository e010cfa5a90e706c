"""Sources: where records come from."""
