"""Commands of the group ``config``, a file each."""
