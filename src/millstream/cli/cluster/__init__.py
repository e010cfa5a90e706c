"""Commands of the group ``cluster``, a file each."""
