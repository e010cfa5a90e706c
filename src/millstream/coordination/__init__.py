"""Coordinators: consumer groups and transactions, as pure machines over the internal topics' partitions."""
