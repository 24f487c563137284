"""What holds for every test: one event loop, the profiles of Hypothesis, no task left behind."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
import signal
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.contract import pytest_collection_modifyitems
from tests.requirements import pytest_terminal_summary, require_mongod, require_postgresql
from tests.tracing import (
    pytest_collection,
    pytest_fixture_setup,
    pytest_pyfunc_call,
    pytest_runtest_protocol,
    pytest_runtest_teardown,
    pytest_sessionfinish,
)

from alula.logs import _fields as fields

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

__all__ = [
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_fixture_setup",
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
]

# Deadlines and the check for slowness measure the machine, not the code.
calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", **calm, max_examples=15)
settings.register_profile(
    "ci", **calm, derandomize=True, database=None, print_blob=True, max_examples=15
)
settings.register_profile("release", **calm, print_blob=True, max_examples=300)
# On other versions of the packages, `make test` has searched for what is ours.
settings.register_profile(
    "versions", **calm, derandomize=True, database=None, print_blob=True, max_examples=10
)
settings.register_profile("fuzz", **calm, max_examples=5_000, print_blob=True)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev")
)

# A shell that starts the tests in the background has them ignore Ctrl+C, and so the programs that
# they start; those that wait for it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SECONDS_TO_END = 30.0

IN_PYMONGO = re.compile(r"at \S*[/\\]pymongo[/\\]")


def pytest_xdist_auto_num_workers() -> int:
    """Say what `-n auto` means: each process has a MongoDB of its own, but for a given one."""
    return 0 if os.environ.get("ALULA_MONGODB_URL") else min((os.cpu_count() or 1) + 1, 4)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Run on asyncio, in one loop for all tests, which fixtures of the session share."""
    return "asyncio", {"use_uvloop": False}


@pytest.fixture(scope="session")
def mongodb_url() -> Iterator[str]:
    """Run a MongoDB for all tests, a replica set of one member; ALULA_MONGODB_URL names another.

    Each test takes a database or a collection of its own, and drops it.
    """
    given = os.environ.get("ALULA_MONGODB_URL")
    if given:
        yield given
        return
    require_mongod()
    from alula.local_mongodb import LocalServer

    server = LocalServer()
    # In a thread: the loop of the tests may be this one's, and synchronous tests need it too.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, server.start()).result()
        # Otherwise each client opens a second connection for measurements a moment after the first
        # one. PyMongo does not close its socket if the client is closed meanwhile.
        yield f"{server.url}&serverMonitoringMode=poll"
        thread.submit(asyncio.run, server.stop()).result()


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """Run a PostgreSQL for all tests; ALULA_POSTGRESQL_URL names another."""
    given = os.environ.get("ALULA_POSTGRESQL_URL")
    if given:
        yield given
        return
    require_postgresql()
    from alula.local_postgresql import LocalServer

    server = LocalServer()
    with ThreadPoolExecutor(1) as thread:  # as above
        thread.submit(asyncio.run, server.start()).result()
        yield server.url
        thread.submit(asyncio.run, server.stop()).result()


@pytest.fixture
def postgresql_schema(postgresql_url: str) -> Iterator[str]:
    """Make a schema for one test; the URL makes it that of each connection."""
    import asyncpg

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgresql_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    name = f"test_{uuid.uuid4().hex}"
    with ThreadPoolExecutor(1) as thread:  # for synchronous tests too
        thread.submit(asyncio.run, execute(f"create schema {name}")).result()
        joint = "&" if "?" in postgresql_url else "?"
        yield f"{postgresql_url}{joint}search_path={name}"
        thread.submit(asyncio.run, execute(f"drop schema {name} cascade")).result()


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name an empty database of each dialect."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.sqlite'}"
    url: str = request.getfixturevalue("postgresql_schema")
    return url


@pytest.fixture(scope="session", autouse=True)
def _attempts_to_connect_are_closed() -> Iterator[None]:
    """Close the socket of an attempt to connect that is cancelled.

    PyMongo leaves such sockets to the garbage collector, and the warning about that reaches
    whichever test runs then. A client that is closed cancels its attempts, so any test may leave
    one. asyncio's own attempts close theirs.
    """
    connect = asyncio.SelectorEventLoop.sock_connect

    async def sock_connect(loop: Any, socket: Any, address: Any) -> None:
        try:
            await connect(loop, socket, address)
        except asyncio.CancelledError:
            socket.close()
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.SelectorEventLoop, "sock_connect", sock_connect)
        yield


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Take back what a test has configured for all that is logged in this process."""
    known = [logging.getLogger(name) for name in (None, "alula.access", "pymongo", "uvicorn")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in known]
    more = dict(fields._providers)
    yield
    for logger, level, handlers in before:
        if logger.level != level:
            logger.setLevel(level)
        logger.handlers[:] = handlers
    fields._providers.clear()
    fields._providers.update(more)


@pytest.fixture(scope="session")
async def loop_of_tests() -> AsyncIterator[asyncio.AbstractEventLoop]:
    """Keep one event loop for all tests; most tests would take less time than a new loop does."""
    yield asyncio.get_running_loop()  # noqa: PT022  # anyio keeps the loop until the second half


@pytest.fixture(autouse=True)
def _ends_its_tasks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves asyncio tasks running; a connection that closes needs a moment."""
    if not inspect.iscoroutinefunction(request.function):
        yield
        return
    loop: asyncio.AbstractEventLoop = request.getfixturevalue("loop_of_tests")
    before = asyncio.all_tasks(loop)
    yield
    until = loop.time() + SECONDS_TO_END
    while left := {task for task in asyncio.all_tasks(loop) - before if not is_of_a_client(task)}:
        if loop.time() > until:
            pytest.fail(f"the test left tasks running: {left}")
        loop.run_until_complete(asyncio.sleep(0.005))


def is_of_a_client(task: asyncio.Task[Any]) -> bool:
    """Tell whether a client of a database runs a task, which watches its servers.

    The client lives as long as its fixture, which may be longer than a test.
    """
    return IN_PYMONGO.search(repr(task)) is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[object]:
    """Let Python write the traceback of an expected failure.

    Nobody reads it. pytest's own takes 0.3 s, because it parses every file of the stack.
    """
    option = item.config.option
    style = option.tbstyle
    if call.excinfo is not None and call.excinfo.errisinstance(pytest.xfail.Exception):
        option.tbstyle = "native"
    try:
        return (yield)
    finally:
        option.tbstyle = style
