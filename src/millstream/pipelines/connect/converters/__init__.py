"""Converters: what a record's key, value and headers are as bytes in a topic."""
