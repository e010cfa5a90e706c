"""Commands of the group ``perf``, a file each."""
