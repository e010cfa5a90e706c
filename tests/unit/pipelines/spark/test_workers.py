import gc
import subprocess
import sys

from millstream.pipelines.spark.workers import spare_collections

SCRIPT = """
import gc
from millstream.pipelines.spark.workers import spare_collections
spare_collections()
frozen = gc.get_freeze_count()
kept = [[] for _ in range(1000)]
spare_collections()
assert frozen > 1000 and gc.get_freeze_count() <= frozen, (frozen, gc.get_freeze_count())
"""


def test_what_a_process_has_loaded_is_spared_once() -> None:
    """In a process of its own: whatever is spared is spared for good."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
    assert callable(spare_collections)
    assert gc.isenabled()
