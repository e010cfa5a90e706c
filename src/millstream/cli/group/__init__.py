"""Commands of the group ``group``, a file each."""
