"""What happens to sessions when their servers fall silent, die, come back or let them expire."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from millstream.cli.cluster.zookeeper import ZooKeeperServer, free_ports
from millstream.config.zookeeper import parse_ensemble
from millstream.registry.tree import BadVersion, Create, NodeExists, RegistryFailure, SessionExpired, Set
from millstream.registry.zookeeper import session
from millstream.registry.zookeeper.registry import ZooKeeperRegistry
from millstream.registry.zookeeper.unanswered import was_done
from tests.unit.registry.backends import expire, settled
from tests.zookeepers import running

#: Longer than a server needs to start again on a busy machine.
SESSION_TIMEOUT_MS = 10_000
#: A server may take long to come back on a busy machine.
PATIENT_SESSION_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A server of this module's own, which its tests may hurt if they heal it."""
    with running(tmp_path_factory.mktemp("zookeeper")) as (server,):
        yield server


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "millstream.registry.zookeeper")


@asynccontextmanager
async def opened(
    servers: str, root: str, session_timeout_ms: int = SESSION_TIMEOUT_MS, **options: Any
) -> AsyncIterator[ZooKeeperRegistry]:
    registry = await ZooKeeperRegistry.open(
        parse_ensemble(f"{servers}/{root}"), session_timeout_ms=session_timeout_ms, connect_timeout_ms=20_000, **options
    )
    try:
        yield registry
    finally:
        await registry.close()


def restart(server: ZooKeeperServer) -> None:
    server.kill()
    server.start()
    server.wait()


def pause(server: ZooKeeperServer) -> None:
    """Return once no thread of the server runs any more, which is not at once on a busy machine."""
    server.signal(signal.SIGSTOP)
    threads = Path(f"/proc/{server.pid}/task")
    while any((thread / "stat").read_text().rpartition(")")[2].split()[0] != "T" for thread in threads.iterdir()):
        time.sleep(0.001)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - it may be another thread's or process's doing
            await asyncio.sleep(0.01)


def test_a_killed_server_that_comes_back_is_waited_for_and_loses_no_node(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "restart", PATIENT_SESSION_MS) as registry:
            session_id = registry.session_id
            await registry.create("/mine", b"1", ephemeral=True)
            # A server that starts may take a connection and never answer, which costs some of the session's time.
            client = registry._client
            servers, client.hosts = client.hosts, [("127.0.0.1", free_ports(1)[0])]
            server.kill()
            asked = [
                asyncio.create_task(registry.get("/mine")),
                asyncio.create_task(registry.get_many(["/mine", "/other"])),
                asyncio.create_task(registry.set("/mine", b"2", 0)),
                asyncio.create_task(registry.create("/other", b"3")),
            ]
            await asyncio.sleep(0)
            await asyncio.to_thread(restart, server)
            client.hosts = servers
            await asyncio.gather(*asked)
            assert (await registry.get("/mine")).data == b"2"
            assert (await registry.get("/other")).data == b"3"
            assert registry.session_id == session_id

    asyncio.run(scenario())


@pytest.mark.parametrize(("tries", "first_word_s"), [(PATIENT_SESSION_MS // 200, 60.0), (1, 0.2)])
def test_a_lone_server_that_takes_a_connection_and_says_nothing_is_soon_asked_again(
    tries: int, first_word_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a part of the session's time, and however long that is: kazoo would wait for all of it."""
    monkeypatch.setattr(session, "TRIES", tries)
    monkeypatch.setattr(session, "FIRST_WORD_S", first_word_s)

    async def scenario() -> None:
        came = asyncio.Event()
        count = 0

        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal count
            count += 1
            if count == 3:
                came.set()
            await reader.read()
            writer.close()

        mute = await asyncio.start_server(say_nothing, "127.0.0.1")
        address = f"127.0.0.1:{mute.sockets[0].getsockname()[1]}"
        opening = asyncio.create_task(
            ZooKeeperRegistry.open(
                parse_ensemble(address), session_timeout_ms=PATIENT_SESSION_MS, connect_timeout_ms=PATIENT_SESSION_MS
            )
        )
        async with asyncio.timeout(PATIENT_SESSION_MS / 1000 / 2):
            await came.wait()
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        mute.close()

    asyncio.run(scenario())


def test_writes_under_way_when_a_server_dies_are_done_once(server: ZooKeeperServer) -> None:
    """Each names the version before it, so that one done twice, or lost, would break the chain."""

    async def scenario() -> None:
        async with opened(server.address, "once") as registry:
            await registry.create("/count", b"0")
            await registry.create("/made")
            done = 0

            async def write() -> None:
                nonlocal done
                for number in range(1, 301):
                    stat = await registry.set("/count", str(number).encode(), number - 1)
                    assert stat.version == number
                    await registry.multi([Create(f"/made/{number}"), Set("/made", str(number).encode(), number - 1)])
                    done = number

            writer = asyncio.create_task(write())
            for after in (30, 120, 200):
                await until(lambda after=after: done >= after or writer.done())  # type: ignore[misc]
                await asyncio.to_thread(restart, server)
            await writer
            assert len(await registry.children("/made")) == 300

    asyncio.run(scenario())


def test_watches_hear_what_changed_while_the_connection_was_lost(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "watches") as watching, opened(server.address, "watches") as other:
            await other.create("/node", b"0")
            heard = {"node": 0, "children": 0, "absent": 0}

            def count(name: str) -> None:
                heard[name] += 1

            await watching.watch("/node", lambda: count("node"))
            await watching.watch("/", lambda: count("children"), children=True)
            await watching.watch("/absent/child", lambda: count("absent"), children=True)
            watching._session._handler.hang_up()
            await other.set("/node", b"1")
            await other.create("/absent")
            await other.create("/absent/child")
            await until(lambda: all(heard.values()))
            await settled(watching)
            before = dict(heard)
            await other.set("/node", b"2")
            await other.create("/absent/child/deep")
            await settled(watching)
            assert heard["node"] > before["node"] and heard["absent"] > before["absent"]

    asyncio.run(scenario())


def test_a_reader_that_reads_at_every_call_sees_the_last_value_through_lost_connections(
    server: ZooKeeperServer,
) -> None:
    async def scenario() -> None:
        async with opened(server.address, "through") as watching, opened(server.address, "through") as other:
            await other.create("/node", b"0")
            seen = [0]
            due = asyncio.Event()
            await watching.watch("/node", due.set)

            async def read() -> None:
                while seen[-1] < 300:
                    await due.wait()
                    due.clear()
                    seen.append(int((await watching.get("/node")).data))

            async def lose_connections() -> None:
                while True:
                    watching._session._handler.hang_up()
                    await asyncio.sleep(0.02)

            reader, losing = asyncio.create_task(read()), asyncio.create_task(lose_connections())
            for number in range(1, 301):
                await other.set("/node", str(number).encode())
            await asyncio.wait_for(reader, 20)
            losing.cancel()
            assert seen == sorted(seen)

    asyncio.run(scenario())


def test_a_server_that_falls_silent_for_a_while_is_waited_for(server: ZooKeeperServer) -> None:
    """Stopped, not dead: it takes connections and answers nothing."""

    async def scenario() -> None:
        async with opened(server.address, "silent") as registry:
            await registry.create("/node", b"1")
            pause(server)
            try:
                asked = asyncio.create_task(registry.get("/node"))
                waited = await asyncio.wait([asked], timeout=0.3)
                assert not waited[0]
            finally:
                server.signal(signal.SIGCONT)
            assert (await asked).data == b"1"

    asyncio.run(scenario())


def test_closing_does_not_wait_for_a_server_that_is_silent(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "closing"):
            pause(server)
            began_s = time.monotonic()
        assert time.monotonic() - began_s < 2 * SESSION_TIMEOUT_MS / 1000

    try:
        asyncio.run(scenario())
    finally:
        server.signal(signal.SIGCONT)


def test_watches_stand_in_the_session_after_an_expired_one(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "expiry") as registry, opened(server.address, "expiry") as other:
            await registry.create("/node", b"0")
            await registry.create("/mine", ephemeral=True)
            heard = asyncio.Event()
            await registry.watch("/node", heard.set)
            before = registry.session_id
            await expire(registry, registry._ensemble)
            assert registry.session_id != before
            assert await registry.exists("/mine") is None
            await settled(registry)
            heard.clear()
            await other.set("/node", b"1")
            await heard.wait()

    asyncio.run(scenario())


def test_a_write_that_waits_when_its_session_expires_is_never_made(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "late") as registry:
            with registry._session._gate:
                registry._session._open_id = None  # As while the connection is lost.
            write = asyncio.create_task(registry.create("/late", ephemeral=True))
            read = asyncio.create_task(registry.exists("/late"))
            await asyncio.sleep(0)
            await expire(registry, registry._ensemble)
            with pytest.raises(SessionExpired):
                await write
            assert await read is None
            await registry.create("/late", ephemeral=True)

    asyncio.run(scenario())


def test_a_session_that_a_silent_process_lost_is_known_to_be_over(server: ZooKeeperServer) -> None:
    """The client is cut off for longer than its session lasts, and learns of it when it is back."""

    async def scenario() -> None:
        async with (
            opened(
                server.address,
                "cut",
            ) as registry,
            opened(server.address, "cut") as other,
        ):
            await registry.create("/mine", ephemeral=True)
            gone, expired = asyncio.Event(), asyncio.Event()
            await other.watch("/mine", gone.set)
            registry.on_session_expired(expired.set)
            client = registry._client
            servers, client.hosts = client.hosts, [("127.0.0.1", free_ports(1)[0])]
            registry._session._handler.hang_up()
            await asyncio.wait_for(gone.wait(), 20)
            assert not expired.is_set()
            client.hosts = servers
            await asyncio.wait_for(expired.wait(), 20)
            await registry.create("/mine", ephemeral=True)

    asyncio.run(scenario())


def test_no_thread_outlives_its_registry(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        before = threading.active_count()
        for _ in range(3):
            async with opened(server.address, "threads") as registry:
                await registry.watch("/node", lambda: None)
                await registry.create("/node", ephemeral=True)
        assert threading.active_count() == before

    asyncio.run(scenario())


def test_no_server_within_reach_is_said_in_a_line() -> None:
    (port,) = free_ports(1)

    async def scenario() -> None:
        with pytest.raises(
            RegistryFailure, match=rf"127.0.0.1:{port}/root: no ZooKeeper answered within 0.5 s; start it"
        ):
            await ZooKeeperRegistry.open(
                parse_ensemble(f"127.0.0.1:{port}/root"), session_timeout_ms=3_000, connect_timeout_ms=500
            )
        assert threading.active_count() == before

    before = threading.active_count()
    asyncio.run(scenario())


def test_a_write_too_large_for_a_server_is_refused_before_it_hangs_up(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "large") as registry:
            with pytest.raises(RegistryFailure, match="more than ZooKeeper takes at once"):
                await registry.create("/node", b"x" * 1_100_000)
            await registry.create("/node", b"x" * 900_000)
            assert len((await registry.get("/node")).data) == 900_000

    asyncio.run(scenario())


def test_nodes_of_an_authenticated_maker_are_its_own_to_change(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with (
            opened(server.address, "acl", credentials="kafka:secret", set_acl=True) as owner,
            opened(server.address, "acl", credentials="kafka:secret") as same,
            opened(server.address, "acl", credentials="kafka:wrong") as other,
            opened(server.address, "acl") as anyone,
        ):
            await owner.multi([Create("/node", b"1"), Create("/consumers"), Create("/config"), Create("/config/users")])
            await same.set("/node", b"2")
            for stranger in (other, anyone):
                assert (await stranger.get("/node")).data == b"2"
                with pytest.raises(RegistryFailure, match="/node: its access list keeps us out; give the credentials"):
                    await stranger.set("/node", b"3")
                with pytest.raises(RegistryFailure, match="access list"):
                    await stranger.multi([Create("/consumers/x"), Set("/node", b"3")])
                with pytest.raises(RegistryFailure, match="access list"):
                    await stranger.get_many(["/node", "/config/users"])
            await anyone.create("/consumers/group")

    asyncio.run(scenario())


def test_without_protection_anyone_may_change_nodes(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with (
            opened(server.address, "open", credentials="kafka:secret") as owner,
            opened(server.address, "open") as anyone,
        ):
            await owner.create("/node", b"1")
            await anyone.set("/node", b"2")

    asyncio.run(scenario())


def test_a_conflict_is_still_one_after_a_lost_connection(server: ZooKeeperServer) -> None:
    async def scenario() -> None:
        async with opened(server.address, "conflict") as registry, opened(server.address, "conflict") as other:
            await other.create("/node", b"theirs")
            asked: list[Coroutine[Any, Any, Any]] = [
                registry.create("/node", b"ours"),
                registry.set("/node", b"ours", 7),
            ]
            registry._session._handler.hang_up()
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [NodeExists, BadVersion]

    asyncio.run(scenario())


def test_a_write_whose_answer_was_lost_is_not_made_again(
    server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has the requests, but nobody to answer: the client has hung up, and comes back to look."""

    async def scenario() -> None:
        async with opened(server.address, "lost-answer") as registry:
            await registry.create("/node", b"0")
            known = 0

            def noted(*args: Any) -> bool:
                nonlocal known
                done = was_done(*args)
                known += done
                return done

            monkeypatch.setattr("millstream.registry.zookeeper.registry.was_done", noted)

            async def unanswered(write: Coroutine[Any, Any, Any]) -> Any:
                """One at a time: a server that finds nobody to answer reads no further."""
                pause(server)
                writing = asyncio.create_task(write)
                await until(lambda: len(registry._client._pending) == 1)
                registry._session._handler.hang_up()
                server.signal(signal.SIGCONT)
                return await writing

            created = await unanswered(registry.create("/made", b"1", ephemeral=True))
            stat = await unanswered(registry.set("/node", b"1", 0))
            outcomes = await unanswered(
                registry.multi([Create("/parent"), Create("/parent/child", b"2"), Set("/parent", b"3", 0)])
            )
            assert created.path == "/made" and created.stat.ephemeral_owner == registry.session_id
            assert stat.version == (await registry.get("/node")).version == 1
            assert outcomes == ["/parent", "/parent/child", await registry.exists("/parent")]
            assert known == 3

    asyncio.run(scenario())


def test_an_ensemble_goes_on_when_its_leader_dies(tmp_path: Path) -> None:
    with running(tmp_path, 3) as servers:
        addresses = ",".join(server.address for server in servers)

        async def scenario() -> None:
            async with opened(addresses, "ensemble") as registry:
                await registry.create("/node", b"0")
                for server in servers:
                    if server.mode() == "leader":
                        server.kill()
                await asyncio.wait_for(registry.set("/node", b"1", 0), 20)

        asyncio.run(scenario())
