"""Commands of the group ``topic``, a file each."""
