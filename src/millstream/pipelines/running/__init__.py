"""Pipelines as they are run: described by a file, started in a process of their own, watched and started again."""
