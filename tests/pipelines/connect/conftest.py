"""What connectors connect to, as far as this machine has it."""

from collections.abc import Iterator

import pytest

from tests.compatibility.conftest import absent
from tests.pipelines.connect.postgres import PostgresServer, TestDatabase, binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = binaries()
    if programs is None:
        absent("no PostgreSQL is installed (tests/compatibility/install does it)")
    assert programs is not None
    with PostgresServer(programs) as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[TestDatabase]:
    made = postgres.database()
    yield made
    made.clear()
