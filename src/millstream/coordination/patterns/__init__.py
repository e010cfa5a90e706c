"""RE2's patterns, which clients send: of topics' names and of transactional ids."""
