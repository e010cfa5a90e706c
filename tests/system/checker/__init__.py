"""A workload with real processes, its history, and what must never be found in it."""
