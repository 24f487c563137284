"""The local server: a replica set of one member, on a real mongod."""

from __future__ import annotations

import asyncio
import socket

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, OperationFailure
from tests.requirements import require_mongod

from alula.local_mongodb import (
    FolderInUse,
    LocalServer,
    LocalServerError,
    Mongod,
    form_replica_set,
)
from alula.local_mongodb import _server as local
from alula.local_mongodb._server import find_running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _needs_mongod():
    require_mongod()


async def count_after_one_more(server: LocalServer) -> int:
    """Write a record in a transaction, which takes a primary; return how many there are."""
    async with AsyncMongoClient(server.url, serverSelectionTimeoutMS=5_000) as client:
        records = client.test.records
        async with client.start_session() as session, await session.start_transaction():
            await records.insert_one({}, session=session)
        return await records.count_documents({})


async def test_keeps_its_data_when_its_port_changes_and_after_a_kill(tmp_path):
    server = LocalServer(tmp_path)
    async with server as entered:
        assert entered is server
        first = server.url
        assert first.startswith("mongodb://127.0.0.1:")
        assert await server.start() is server
        assert server.url == first
        assert await count_after_one_more(server) == 1
        server._process.kill()
    await server.start()
    assert server.url != first
    assert await count_after_one_more(server) == 2
    port = server._process.port
    await server.stop()
    async with LocalServer(tmp_path, port=port) as again:  # the address of the last time
        assert again.url == f"mongodb://127.0.0.1:{port}/?replicaSet=alula"
        assert await count_after_one_more(again) == 3


@pytest.mark.parametrize("own_folder", [True, False])
async def test_one_that_died_comes_up_at_the_same_address(tmp_path, own_folder):
    async with LocalServer(None if own_folder else tmp_path) as server:
        address, folder = server.url, server._process.folder
        async with AsyncMongoClient(address, serverSelectionTimeoutMS=20_000) as client:
            await client.test.records.insert_one({})
            server._process.kill()
            await server.start()
            assert server.url == address
            assert await client.test.records.count_documents({}) == 1  # by the very same client
    assert folder.exists() is not own_folder


async def test_a_taken_address_is_an_error_and_keeps_the_data(tmp_path):
    async with LocalServer() as server:
        assert await count_after_one_more(server) == 1
        address, folder, port = server.url, server._process.folder, server._process.port
        server._process.kill()
        with socket.create_server(("127.0.0.1", port)), pytest.raises(LocalServerError):
            await server.start()
        assert folder.exists()
        await server.start()
        assert server.url == address
        assert await count_after_one_more(server) == 2


async def test_a_folder_of_its_own_goes_with_it():
    server = LocalServer()
    with pytest.raises(LocalServerError, match=r"not running; `await server.start\(\)` first"):
        _ = server.url
    await server.start()
    folder = server._process.folder
    assert repr(server) == f"<LocalServer <Mongod {server._process.address} in {folder}>>"
    assert (folder / "mongod.log").is_file()
    await server.stop(grace=0)
    assert not folder.exists()
    await server.stop()
    with pytest.raises(LocalServerError, match="not running"):
        _ = server.url


async def test_another_process_may_share_it(tmp_path):
    async with LocalServer(tmp_path / "data", share=True) as first:
        async with LocalServer(tmp_path / "data", share=True) as second:
            assert second.url == first.url
            assert await count_after_one_more(second) == 1
        assert await count_after_one_more(first) == 2  # that one did not stop it
        with pytest.raises(FolderInUse):
            await LocalServer(tmp_path / "data").start()
    port = int((tmp_path / "data" / "alula.port").read_text())
    other = Mongod(tmp_path / "other", port=port)
    await other.start()
    assert await find_running(tmp_path / "data") is None  # a server, but not of this folder
    await other.stop()
    assert await find_running(tmp_path / "data") is None


@pytest.mark.parametrize("noted", ["", "x", None])
async def test_no_port_is_noted(tmp_path, noted):
    if noted is not None:
        (tmp_path / "alula.port").write_text(noted)
    assert await find_running(tmp_path) is None


@pytest.mark.parametrize("appears", [True, False])
async def test_the_folder_may_be_taken_meanwhile(tmp_path, monkeypatch, appears):
    answers = iter([None, 27017 if appears else None])

    async def find(folder):
        assert folder == tmp_path
        return next(answers)

    async def taken(self):
        raise FolderInUse("taken")

    monkeypatch.setattr(local, "find_running", find)
    monkeypatch.setattr(Mongod, "start", taken)
    server = LocalServer(tmp_path, share=True)
    if appears:
        await server.start()
        assert server.url == "mongodb://127.0.0.1:27017/?replicaSet=alula"
        await server.stop()
    else:
        with pytest.raises(FolderInUse):
            await server.start()


async def test_what_runs_already_is_used_at_once(tmp_path, monkeypatch):
    async def find(folder):
        return 27017

    monkeypatch.setattr(local, "find_running", find)
    async with LocalServer(tmp_path, share=True) as server:
        assert server.url == "mongodb://127.0.0.1:27017/?replicaSet=alula"
    assert not any(tmp_path.iterdir())  # none was started


async def test_the_port_may_be_that_of_another_program(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_TIMEOUT_MS", 100)
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with other:
        port = other.sockets[0].getsockname()[1]
        (tmp_path / "alula.port").write_text(f"{port}\n")
        assert await find_running(tmp_path) is None


def test_what_is_shared_is_a_folder():
    with pytest.raises(ValueError, match="needs the folder"):
        LocalServer(share=True)


async def test_leaves_nothing_behind_where_the_set_cannot_be_formed(tmp_path, monkeypatch):
    started = []

    async def fail(members):
        started.extend(members)
        raise LocalServerError("no primary")

    monkeypatch.setattr(local, "form_replica_set", fail)
    server = LocalServer(tmp_path)
    with pytest.raises(LocalServerError, match="no primary"):
        await server.start()
    assert not started[0].is_running()
    with pytest.raises(LocalServerError, match="not running"):
        _ = server.url


async def test_a_standalone_server_cannot_become_a_set(tmp_path):
    server = Mongod(tmp_path)
    await server.start()
    with pytest.raises(OperationFailure, match="replSet"):
        await form_replica_set([server])
    server.kill()


async def test_settings_reach_the_set_and_no_primary_in_time_is_an_error(tmp_path, monkeypatch):
    server = Mongod(tmp_path, replica_set="rs")
    await server.start()
    await form_replica_set([server], {"electionTimeoutMillis": 1234})
    async with AsyncMongoClient("127.0.0.1", server.port, directConnection=True) as client:
        found = await client.admin.command("replSetGetConfig")
    assert found["config"]["settings"]["electionTimeoutMillis"] == 1234
    assert found["config"]["_id"] == "rs"

    monkeypatch.setattr(local, "SECONDS_TO_START", 0)
    monkeypatch.setattr(local, "_has_primary", never)
    with pytest.raises(LocalServerError, match=r"no primary was elected; see \S+mongod.log"):
        await form_replica_set([server])
    server.kill()


async def never(_) -> bool:
    return False


class Dropping:
    """A client whose server drops the connection."""

    @property
    def admin(self):
        return self

    async def command(self, name):
        assert name == "hello"
        raise AutoReconnect("connection closed")


async def test_a_dropped_connection_means_no_primary_yet():
    assert await local._has_primary(Dropping()) is False
