"""Rows into topics: encoded by the column, sent in transactions, and every batch committed once or not at all."""
