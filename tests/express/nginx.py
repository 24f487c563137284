"""nginx as a page of the documentation configures it, in front of servers of a test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.requirements import require_nginx

from alula._sockets import listen_on_port

DOCS = Path(__file__).parents[2] / "docs"
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


@asynccontextmanager
async def nginx_of(page: str, folder: Path, changes: Mapping[str, str]) -> AsyncIterator[str]:
    """Run nginx with the configuration of a page; yields its address.

    Args:
        page: The name of the page.
        folder: Where nginx writes.
        changes: Patterns of the configuration, each of which occurs, and what takes their place.
            ``PORT`` stands for the port of nginx.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    ours = re.search(r"```nginx\n(.*?)```", text, re.DOTALL)[1]
    with listen_on_port("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
    for pattern, replacement in changes.items():
        ours, count = re.subn(pattern, replacement.replace("PORT", str(port)), ours)
        assert count, pattern
    path = folder / "nginx.conf"
    path.write_text(AROUND.format(folder=folder, ours=ours))
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
