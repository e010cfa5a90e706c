"""Members of a group share partitions out by the registry alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.ownership import Ownership, share_of
from millstream.model.ids import ZERO_UUID, TopicPartition
from millstream.registry.consumers import CONSUMER, INCLUDING, OWNER, ConsumerRegistration
from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.membership import lay_out
from millstream.registry.nodes import TOPIC, TopicAssignment
from millstream.registry.tree import RegistryFailure

GROUP = "g"


class Group:
    """Members over one tree, and what they own and released."""

    def __init__(self) -> None:
        self.tree = EmbeddedTree(call_soon=asyncio.get_running_loop().call_soon)
        self.admin = self.tree.session()
        self.members: dict[str, tuple[Ownership, EmbeddedRegistry]] = {}
        self.released: list[tuple[str, TopicPartition]] = []
        self.changed = asyncio.Condition()

    async def join(
        self, name: str, subscription: Mapping[str, int] | None = None, pattern: str = INCLUDING
    ) -> Ownership:
        session = self.tree.session()

        async def release(partitions: Iterable[TopicPartition]) -> None:
            await asyncio.sleep(0)  # Storing offsets takes a while, and the claims hold meanwhile.
            for tp in partitions:
                assert OWNER.decode((await self.admin.get(OWNER.path(GROUP, *tp))).data).startswith(f"{name}-")
                self.released.append((name, tp))

        registration = ConsumerRegistration(subscription or {"orders.*": 1}, pattern)
        member = Ownership(session, GROUP, name, registration, on_changed=lambda: None, before_release=release)
        await member.start()
        self.members[name] = member, session
        return member

    async def leave(self, name: str) -> None:
        member, _ = self.members.pop(name)
        await member.close()

    async def die(self, name: str) -> None:
        """The process is gone, and its session with it."""
        member, session = self.members.pop(name)
        assert member._keeper is not None
        member._keeper.cancel()
        await session.close()

    async def put_topic(self, name: str, partitions: int) -> None:
        topic = TOPIC.encode(TopicAssignment(ZERO_UUID, dict.fromkeys(range(partitions), (1,))))
        if await self.admin.exists(TOPIC.path(name)):
            await self.admin.set(TOPIC.path(name), topic)
        else:
            await self.admin.create(TOPIC.path(name), topic)

    def owners(self) -> Counter[TopicPartition]:
        return Counter(tp for member, _ in self.members.values() for tp in member.owned)

    async def settle(self, *partitions: TopicPartition, **sizes: int) -> None:
        """Wait until each of these is owned, so many by each member; none must ever be owned twice."""
        async with asyncio.timeout(10):
            while set(self.owners()) != set(partitions) or self.sizes() | sizes != self.sizes():
                assert max(self.owners().values(), default=1) == 1
                await asyncio.sleep(0)
        assert max(self.owners().values(), default=1) == 1

    def sizes(self) -> dict[str, int]:
        return {name: len(member.owned) for name, (member, _) in self.members.items()}


def partitions(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


@asynccontextmanager
async def group() -> AsyncIterator[Group]:
    made = Group()
    await lay_out(made.admin)
    try:
        yield made
    finally:
        for name in list(made.members):
            await made.leave(name)


def on_a_group(scenario: Callable[[Group], object]) -> Callable[[], None]:
    def test() -> None:
        async def run() -> None:
            async with group() as members:
                await scenario(members)  # type: ignore[misc]

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


@on_a_group
async def test_each_partition_is_owned_by_one_member_as_members_come_and_go(members: Group) -> None:
    await members.put_topic("orders", 7)
    every = partitions("orders", 7)
    await members.join("a")
    await members.settle(*every)
    await members.join("b")
    await members.join("c")
    await members.settle(*every, a=3, b=2, c=2)
    await members.die("a")
    await members.settle(*every, b=4, c=3)
    await members.leave("c")
    await members.settle(*every, b=7)


@on_a_group
async def test_what_is_given_up_is_stored_while_the_claim_still_holds(members: Group) -> None:
    await members.put_topic("orders", 4)
    await members.join("a")
    await members.settle(*partitions("orders", 4))
    await members.join("b")
    await members.settle(*partitions("orders", 4), a=2, b=2)
    assert members.released == [("a", TopicPartition("orders", 2)), ("a", TopicPartition("orders", 3))]


@on_a_group
async def test_topics_that_come_to_match_and_partitions_that_are_added_are_shared_too(members: Group) -> None:
    await members.join("a")
    await members.join("b")
    await members.put_topic("orders", 2)
    await members.settle(*partitions("orders", 2))
    await members.put_topic("orders.eu", 2)
    await members.put_topic("payments", 2)
    await members.put_topic("orders", 4)
    await members.settle(*partitions("orders", 4), *partitions("orders.eu", 2), a=3, b=3)
    await members.admin.delete(TOPIC.path("orders.eu"))
    await members.settle(*partitions("orders", 4))


@on_a_group
async def test_an_expired_session_loses_its_claims_at_once_and_joins_again(members: Group) -> None:
    await members.put_topic("orders", 4)
    a = await members.join("a")
    await members.join("b")
    await members.settle(*partitions("orders", 4), a=2, b=2)
    before = dict(a.owned)
    members.released.clear()
    members.members["a"][1].expire()
    await asyncio.sleep(0)
    await members.settle(*partitions("orders", 4), a=2, b=2)
    assert all(a.owned[tp] is not claim for tp, claim in before.items() if tp in a.owned)
    assert not any(name == "a" for name, _ in members.released)


@on_a_group
async def test_a_claim_that_another_still_holds_is_waited_for(members: Group) -> None:
    stranger = members.tree.session()
    await members.put_topic("orders", 2)
    await members.admin.create("/consumers/g")
    for path in ("/consumers/g/owners", "/consumers/g/owners/orders"):
        await members.admin.create(path)
    await stranger.create("/consumers/g/owners/orders/1", b"stranger-0", ephemeral=True)
    await members.join("a")
    await members.settle(TopicPartition("orders", 0))
    await stranger.close()
    await members.settle(*partitions("orders", 2))


@on_a_group
async def test_members_that_read_other_topics_are_left_alone(members: Group) -> None:
    await members.put_topic("orders", 2)
    await members.put_topic("payments", 2)
    a = await members.join("a", {"orders": 1, "payments": 1}, "static")
    b = await members.join("b", {"payments": 1}, "static")
    await members.settle(*partitions("orders", 2), *partitions("payments", 2), a=3, b=1)
    assert set(a.owned) == {*partitions("orders", 2), TopicPartition("payments", 0)}
    assert set(b.owned) == {TopicPartition("payments", 1)}


@on_a_group
async def test_a_member_id_that_is_taken_is_refused(members: Group) -> None:
    await members.join("a")
    first = members.members["a"]
    second = await members.join("a")
    members.members["first"] = first
    assert second._keeper is not None
    await asyncio.wait_for(second._keeper, 10)
    assert isinstance(second.failure, RegistryFailure)
    assert "another member has this id" in str(second.failure)
    members.members.pop("a")


@on_a_group
async def test_nothing_is_left_of_a_member_that_left(members: Group) -> None:
    await members.put_topic("orders", 2)
    await members.join("a")
    await members.settle(*partitions("orders", 2))
    await members.leave("a")
    assert await members.admin.exists(CONSUMER.path(GROUP, "a")) is None
    assert await members.admin.children("/consumers/g/owners/orders") == []


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 3), min_size=1),
    st.dictionaries(st.sampled_from(["orders", "payments"]), st.integers(0, 12)),
)
def test_shares_are_even_and_leave_nothing_out(streams: dict[str, int], counts: dict[str, int]) -> None:
    members = {name: ConsumerRegistration(dict.fromkeys(counts or ["x"], count)) for name, count in streams.items()}
    shares = {name: share_of(name, members, counts) for name in members}
    owned = Counter(tp for share in shares.values() for tp in share)
    assert owned == Counter(tp for topic, count in counts.items() for tp in partitions(topic, count))
    for topic, count in counts.items():
        by_stream = Counter(stream for share in shares.values() for tp, stream in share.items() if tp.topic == topic)
        assert max(by_stream.values(), default=0) - count // sum(streams.values()) <= 1
