"""For how long a connector's process works without a word of its worker."""

from millstream.pipelines.connect.leash import STOP, Lease, alive


def test_a_lease_is_over_when_the_worker_was_silent_for_too_long() -> None:
    lease = Lease(20.0, now_s=100.0)
    assert not lease.is_over(120.0) and lease.is_over(120.1)
    lease.hear(alive(110.0).rstrip())
    assert not lease.is_over(130.0) and lease.is_over(130.1)
    lease.hear(alive(105.0).rstrip())
    assert lease.is_over(130.1), "a word counts from when it was given, however late it is heard"
    lease.hear(b"what is this")
    assert lease.is_over(130.1)


def test_whoever_says_stop_sees_to_the_end() -> None:
    lease = Lease(20.0, now_s=100.0)
    lease.hear(STOP.rstrip())
    assert not lease.is_over(1000.0)


def test_without_a_lease_a_process_works_for_as_long_as_its_input_is_open() -> None:
    assert not Lease(0.0, now_s=100.0).is_over(1_000_000.0)
