import gc
import subprocess
import sys

from millstream.pipelines.spark.workers import spare_collections

SCRIPT = """
import gc
from millstream.pipelines.spark.workers import spare_collections
frozen = []
kept = []
for _ in range(9):
    kept += [[] for _ in range(1000)]
    spare_collections()
    frozen.append(gc.get_freeze_count())
risen = [number for number in range(2, 10) if frozen[number - 1] > frozen[number - 2] + 900]
assert frozen[0] > 1000 and risen == [2, 4, 8], (frozen, risen)
"""


def test_what_a_process_has_loaded_is_spared_at_its_first_second_fourth_and_eighth_task() -> None:
    """In a process of its own: whatever is spared is spared for good."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
    assert callable(spare_collections)
    assert gc.isenabled()
