"""The number that stands for a group's topics."""

from millstream.coordination.groups.consumer.topology import metadata_hash
from tests.unit.coordination.stage import Topics


def test_the_number_changes_with_what_an_assignor_sees() -> None:
    topics = Topics(orders=2, bills=2)
    seen = [metadata_hash(["orders"], topics)]
    topics.make("orders", 3)
    seen.append(metadata_hash(["orders"], topics))
    topics.put_racks("orders", 0, "r1")
    seen.append(metadata_hash(["orders"], topics))
    topics.put_racks("orders", 0, "r1", "r2")
    seen.append(metadata_hash(["orders"], topics))
    topics.make("orders", 3, b"another id here.")
    seen.append(metadata_hash(["orders"], topics))
    seen.append(metadata_hash(["orders", "bills"], topics))
    assert len(set(seen)) == len(seen)
    assert all(-(2**63) <= number < 2**63 for number in seen)


def test_the_order_of_topics_and_topics_that_are_not_there_do_not_matter() -> None:
    topics = Topics(orders=2, bills=2)
    assert metadata_hash(["orders", "bills"], topics) == metadata_hash(["bills", "gone", "orders"], topics)
    assert metadata_hash(["gone"], topics) == metadata_hash([], topics) == 0
