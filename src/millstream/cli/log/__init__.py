"""Commands of the group ``log``, a file each."""
