"""A follower's side: where it stands in each partition, and how it gets further."""
