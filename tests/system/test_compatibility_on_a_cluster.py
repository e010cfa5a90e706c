"""A little of tests/compatibility against three brokers; the whole of it is run by hand (CONTRIBUTING.md)."""

import os
import subprocess
import sys
from pathlib import Path

#: Of clients that come with the project's own packages, and one by hand.
CHOSEN = (
    "test_topics.py::test_a_deleted_topic_is_gone_and_its_name_is_free[confluent]",
    "test_topics.py::test_added_partitions_can_be_written_and_read[kafka-python]",
    "test_configs.py::test_a_changed_setting_takes_effect[confluent]",
    "test_consume.py::test_all_records_can_be_deleted_at_once[kafka-python]",
    "test_groups.py::test_a_commit_names_offset_and_metadata[confluent]",
    "test_transactions.py::test_consume_transform_produce[confluent-classic]",
    "test_refusals.py::test_a_topic_named_twice_is_not_deleted",
)


def test_clients_find_their_way_about_a_cluster() -> None:
    tests = [f"tests/compatibility/{test}" for test in CHOSEN]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        env={**os.environ, "MILLSTREAM_TEST_BOOTSTRAP": "cluster"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
