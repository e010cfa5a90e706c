"""Commands of the group ``txn``, a file each."""
