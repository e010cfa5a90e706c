"""What keeps connectors running: their configs, offsets and states in topics, and a process for each of them."""
