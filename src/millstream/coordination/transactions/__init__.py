"""Transactions: who may write under which epoch, and how each transaction ends."""
