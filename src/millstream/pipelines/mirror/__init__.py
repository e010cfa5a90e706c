"""Topics of one cluster kept in another, and their groups' offsets: MirrorMaker 2's names, batches passed on raw."""
