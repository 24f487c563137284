"""The real nginx in front, with what the page about deployment says of it."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.express.serving import client_of
from tests.requirements import require_nginx

from alula import App
from alula._sockets import listen_on_port
from alula.adapters.memory import MemoryService
from alula.express import express, json, rest

PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"
AROUND = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/1;
    proxy_temp_path {folder}/2;
    fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4;
    scgi_temp_path {folder}/5;
{ours}
}}
"""

pytestmark = pytest.mark.slow


def configuration(folder: Path, port: int, upstream: int) -> str:
    """Return the configuration of the page, without TLS and on other ports."""
    ours = re.search(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    for line in ("http2 on;", r"ssl_certificate(_key)? .*;"):
        ours, count = re.subn(line, "", ours)
        assert count, line
    ours = ours.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    ours = ours.replace("127.0.0.1:3030", f"127.0.0.1:{upstream}")
    return AROUND.format(folder=folder, ours=ours)


@asynccontextmanager
async def behind_nginx(folder: Path, upstream: int):
    """Run nginx in front of a port; yields its address."""
    with listen_on_port("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    path = folder / "nginx.conf"
    path.write_text(configuration(folder, port, upstream))
    nginx = require_nginx()
    process = await asyncio.create_subprocess_exec(nginx, "-p", str(folder), "-c", str(path))
    try:
        for _ in range(3_000):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionError:
                await asyncio.sleep(0.01)
        writer.close()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


class At:
    def __init__(self, url):
        self.url = url


async def test_connections_of_nginx_outlive_silence(tmp_path):
    """After 5 seconds, uvicorn's default, the application would close them under nginx' hands."""
    app = express(App()).use(json())
    app.configure(rest())
    app.use("notes", MemoryService())
    async with (
        await app.listen(0) as server,
        behind_nginx(tmp_path, server.port) as url,
        client_of(At(url)) as client,
    ):
        connections = server._http_server.state.connections
        assert (await client.post("/notes", json={"a": 1})).status_code == 201
        before = set(connections)
        assert len(before) == 1
        await asyncio.sleep(6)
        assert (await client.post("/notes", json={"a": 2})).status_code == 201
        assert connections == before
