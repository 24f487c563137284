"""The local server, on a real PostgreSQL."""

from __future__ import annotations

import inspect

import pytest
from tests.local_postgresql.test_postgres import rows_after_one_more
from tests.requirements import require_postgresql

from alula import local_postgresql
from alula._local_process import LocalProcess
from alula.local_postgresql import FolderInUse, LocalServer, LocalServerError, Postgres
from alula.local_postgresql._server import find_running

# No package is involved but the server itself.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _needs_postgresql():
    require_postgresql()


def test_all_public_names_are_there_in_order_and_documented():
    names = local_postgresql.__all__
    assert names == sorted(names)
    for name in names:
        assert inspect.getdoc(getattr(local_postgresql, name)), name


async def test_keeps_its_data_when_its_port_changes_and_after_a_kill(tmp_path):
    server = LocalServer(tmp_path)
    async with server as entered:
        assert entered is server
        first = server.url
        assert first.startswith("postgresql://postgres@127.0.0.1:")
        assert await server.start() is server
        assert server.url == first
        assert await rows_after_one_more(server.url) == 1
        server._process.kill()
        assert await find_running(tmp_path) is None  # the lock file stays
        await server.start()
        assert server.url == first
        assert await rows_after_one_more(server.url) == 2
    async with LocalServer(tmp_path) as again:
        assert await rows_after_one_more(again.url) == 3


async def test_a_temporary_folder_is_removed():
    server = LocalServer()
    with pytest.raises(LocalServerError, match=r"not running; `await server.start\(\)` first"):
        assert server.url
    assert repr(server) == "<LocalServer None>"
    async with server:
        folder = server._process.folder
        assert folder.exists()
    assert not folder.exists()
    await server.stop()


async def test_the_server_of_another_process_is_shared(tmp_path):
    with pytest.raises(ValueError, match="needs the folder that is shared"):
        LocalServer(share=True)
    assert await find_running(tmp_path) is None
    async with LocalServer(tmp_path) as server, LocalServer(tmp_path, share=True) as shared:
        assert shared.url == server.url
        assert await shared.start() is shared
        status = server._process.data / "postmaster.pid"
        text = status.read_text()
        for changed in (text.replace("ready", "starting"), "17\n"):
            status.write_text(changed)
            assert await find_running(tmp_path) is None
        status.write_text(text)


@pytest.mark.parametrize("finds", [True, False])
async def test_one_that_another_process_starts_meanwhile_is_shared(tmp_path, monkeypatch, finds):
    found = iter([None, 5432 if finds else None])

    async def look(folder):
        return next(found)

    async def start(self):
        raise FolderInUse("another postgres uses it")

    monkeypatch.setattr(local_postgresql._server, "find_running", look)
    monkeypatch.setattr(LocalProcess, "start", start)
    server = LocalServer(tmp_path, share=True)
    if finds:
        assert (await server.start()).url == "postgresql://postgres@127.0.0.1:5432/postgres"
    else:
        with pytest.raises(FolderInUse):
            await server.start()


async def test_one_that_cannot_start_again_keeps_its_folder(monkeypatch):
    async with LocalServer() as server:
        server._process.kill()
        with monkeypatch.context() as patch:
            patch.setattr(Postgres, "_find", lambda self: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await server.start()
        await server.start()
        assert await rows_after_one_more(server.url) == 1
