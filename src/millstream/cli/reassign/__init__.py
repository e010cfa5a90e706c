"""Commands of the group ``reassign``, a file each."""
