"""Talking to brokers as a client does; ``wire`` carries raw batches, for tools and benchmarks."""
