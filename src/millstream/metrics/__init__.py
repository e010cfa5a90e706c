"""Metrics as a table: declared once, counted for next to nothing, written for Prometheus."""
