"""What a follower that copies history leaves behind: it goes, once, and only where it came from the disk."""

from millstream.model.slices import FileSlice
from millstream.replication.trail import AHEAD_BYTES, FAR_BYTES, STEP_BYTES, Trail

PIECE_BYTES = 1024 * 1024


class Kept:
    """A file that says which of its bytes were let go; from ``hot`` on they are in memory."""

    size = 1 << 30

    def __init__(self, path: str = "a", hot: int = size) -> None:
        self.path, self._hot = path, hot
        self.gone: list[tuple[int, int]] = []

    def let_go(self, position: int, length: int) -> None:
        self.gone.append((position, position + length))

    def read(self, position: int, length: int) -> bytes:
        raise AssertionError("a trail reads nothing")

    def is_cached(self, position: int, length: int) -> bool:
        return position >= self._hot

    read_cached = read

    def fileno(self) -> int:
        raise AssertionError("a trail opens nothing")


def walk(trail: Trail, file: Kept, first: int, last: int, *, is_cold: bool) -> None:
    """Fetch a file piece by piece."""
    for position in range(first, last, PIECE_BYTES):
        piece = FileSlice(file, position, PIECE_BYTES)
        let_go = trail.behind(piece)
        if let_go is not None:
            let_go()
        if is_cold:
            trail.begin(piece)


def test_what_was_in_memory_stays_there() -> None:
    trail, file = Trail(), Kept()
    walk(trail, file, 0, 4 * STEP_BYTES, is_cold=False)
    assert file.gone == []


def test_what_came_from_the_disk_goes_step_by_step_and_nothing_before_it_but_what_was_read_ahead() -> None:
    trail, file = Trail(), Kept()
    start = 5 * STEP_BYTES
    walk(trail, file, start, start + 2 * STEP_BYTES + PIECE_BYTES, is_cold=True)
    middle = start + STEP_BYTES
    assert file.gone == [(start - AHEAD_BYTES, middle), (middle - AHEAD_BYTES, middle + STEP_BYTES)]


def test_the_rest_of_a_file_goes_when_the_next_one_begins_though_that_is_in_memory() -> None:
    trail, old, new = Trail(), Kept("a"), Kept("b")
    walk(trail, old, 0, STEP_BYTES, is_cold=True)
    assert old.gone == []
    walk(trail, new, 0, 2 * STEP_BYTES, is_cold=False)
    assert old.gone == [(0, STEP_BYTES + AHEAD_BYTES)]
    assert new.gone == []


def test_what_others_have_in_memory_stays_there_where_the_follower_comes_to_it() -> None:
    hot = 10 * STEP_BYTES
    trail, file = Trail(), Kept(hot=hot)
    walk(trail, file, 0, hot, is_cold=True)
    walk(trail, file, hot, hot + 10 * STEP_BYTES, is_cold=False)
    assert file.gone[-1][1] <= hot
    assert file.gone[-1][1] >= hot - FAR_BYTES


def test_a_file_that_was_closed_and_opened_again_is_the_same() -> None:
    trail, before, after = Trail(), Kept(), Kept()
    walk(trail, before, 0, STEP_BYTES // 2, is_cold=True)
    del before
    walk(trail, after, STEP_BYTES // 2, STEP_BYTES + PIECE_BYTES, is_cold=True)
    assert after.gone == [(0, STEP_BYTES)]


def test_a_file_is_not_held_open_for_what_was_left_in_it() -> None:
    trail, old, new = Trail(), Kept("a"), Kept("b")
    walk(trail, old, 0, PIECE_BYTES, is_cold=True)
    del old
    walk(trail, new, 0, PIECE_BYTES, is_cold=True)
    walk(trail, new, PIECE_BYTES, STEP_BYTES + 2 * PIECE_BYTES, is_cold=False)
    assert new.gone == [(0, STEP_BYTES)]
