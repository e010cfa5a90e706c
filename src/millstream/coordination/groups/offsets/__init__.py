"""Committed offsets: kept, read, deleted and let go of."""
