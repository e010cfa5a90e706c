"""The records of the internal topics, in Kafka's format."""
