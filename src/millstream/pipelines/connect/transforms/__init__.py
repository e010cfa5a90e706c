"""Transforms: single records changed on their way, by Kafka Connect's names and to its letter."""
