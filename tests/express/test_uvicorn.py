"""uvicorn reads options and certificates; its settings `http` and `ws` take Alula's protocols."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn
from tests.express.serving import client_of
from tests.source_code import parse

import alula.express
from alula.errors import Unavailable
from alula.express import HTTPProtocol, express
from alula.express._http1.server import http_server

SRC = Path(alula.express.__file__).parent.parent


def application():
    return express().all("/", lambda req, res: res.json("here"))


def test_no_other_file_knows_uvicorn():
    found = set()
    sources = {path: path.read_text() for path in SRC.rglob("*.py")}
    for path in (path for path, source in sources.items() if "uvicorn" in source):
        for node in ast.walk(parse(sources[path])):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "uvicorn" for name in names):
                found.add(str(path.relative_to(SRC)))
    assert found == {"express/_http1/server.py"}


# -- options ---------------------------------------------------------------------------------------


async def test_options_of_connections_are_checked():
    with pytest.raises(ValueError, match=r"min_rate is 0; .*greater than 0"):
        await application().listen(0, min_rate=0)


@pytest.mark.parametrize("name", ["http", "ws", "lifespan", "loop", "app"])
async def test_options_that_would_have_no_effect_are_refused(name):
    with pytest.raises(TypeError, match=f"a server has no option '{name}'"):
        http_server(application(), {name: "none"})


async def test_without_a_date():
    options = {"date_header": False, "headers": [("x-here", "1")]}
    async with await application().listen(0, **options) as server, client_of(server) as client:
        headers = (await client.get("/")).headers
    assert headers["x-here"] == "1"
    assert "date" not in headers


async def test_without_websockets_an_upgrade_is_an_ordinary_request(monkeypatch, caplog):
    monkeypatch.setattr("alula.express._http1.server.importlib.util.find_spec", lambda _: None)
    upgrade = {"connection": "upgrade", "upgrade": "websocket"}
    async with await application().listen(0) as server, client_of(server) as client:
        assert (await client.get("/", headers=upgrade)).json() == "here"
    assert "Unsupported upgrade request" in caplog.text


# -- other ways to start uvicorn -------------------------------------------------------------------


async def test_the_command_uvicorn_can_have_the_same_limits():
    config = uvicorn.Config(
        application(), http="alula.express:HTTPProtocol", ws="none", port=0, log_config=None
    )
    config.load()
    assert config.http_protocol_class is HTTPProtocol
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # it does not tell
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /" + b"a" * 70_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /" + b"a" * 70_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
    writer.close()
    server.should_exit = True
    await running


def test_the_protocol_loads_the_options_itself():
    config = uvicorn.Config(application(), ws="none", log_config=None)
    state = uvicorn.server.ServerState()

    async def make():
        return HTTPProtocol(config, state, {})

    asyncio.run(make())
    assert config.loaded


def test_without_httptools_the_error_names_it():
    code = (
        "import sys; sys.modules['httptools'] = None\n"
        "import alula.express\n"
        "alula.express.express().run(0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "httptools" in ran.stderr


# -- the end ---------------------------------------------------------------------------------------


async def test_a_response_that_was_sent_is_not_cut_short():
    async with await application().listen(0) as server, client_of(server) as client:
        assert (await client.get("/")).status_code == 200
        (connection,) = server._http_server.state.connections
        connection.cut_short(Unavailable("too late"))
        assert (await client.get("/")).status_code == 200
        assert connection in server._http_server.state.connections


async def test_idle_connections_outlive_those_of_nginx():
    async with await application().listen(0) as server, client_of(server) as client:
        assert (await client.get("/")).status_code == 200
        (connection,) = server._http_server.state.connections
        timer = connection._idle_check
        assert timer.when() - asyncio.get_running_loop().time() > 60 + 5
