"""What the cluster's table promises of the brokers that are struck."""

import signal

import pytest
from bench import cluster, failover, outages


def test_each_strike_has_a_stage_and_the_rows_that_it_fills() -> None:
    assert list(outages.STAGES) == [f"cluster-{key.replace('_', '-')}" for key in outages.STRIKES]
    assert [row.key for row in outages.ROWS] == [
        key for strike in outages.STRIKES for key in (strike, f"{strike}_failed")
    ]


@pytest.mark.parametrize("key", outages.STRIKES)
def test_a_client_is_impatient_only_with_paused_brokers_and_its_row_says_so(key: str) -> None:
    (row,) = (row for row in outages.ROWS if row.key == key)
    is_paused = outages.STRIKES[key].signal_number == signal.SIGSTOP
    assert ("time-outs of 1 s, asks who leads every 0.25 s" in row.load) is is_paused


def test_what_strikes_brokers_is_part_of_the_clusters_table() -> None:
    assert {*outages.STAGES, *failover.STAGES} < cluster.STAGES.keys()
    assert {row.key for row in [*outages.ROWS, *failover.ROWS]} < {row.key for row in cluster.ROWS}
