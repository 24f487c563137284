"""The real nginx in front, with what the page about deployment says of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.express.nginx import nginx_of
from tests.express.serving import client_of

from alula import App
from alula.adapters.memory import MemoryService
from alula.express import express, json, rest

pytestmark = pytest.mark.slow


def behind_nginx(folder: Path, upstream: int):
    """Run nginx as the page about deployment says, without TLS and on other ports."""
    changes = {
        "http2 on;": "",
        "ssl_certificate(_key)? .*;": "",
        "listen 443 ssl;": "listen 127.0.0.1:PORT;",
        r"127\.0\.0\.1:3030": f"127.0.0.1:{upstream}",
    }
    return nginx_of("deployment.md", folder, changes)


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
