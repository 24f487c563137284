"""Serves the application of the current folder below a prefix that it knows nothing of.

That is what a proxy does which takes the prefix away. Prints its port.
"""

import asyncio
import socket
import sys

import uvicorn
from app import app

PREFIX = sys.argv[1]


async def behind_prefix(scope, receive, send):
    """Take the prefix away; without it, there is nothing."""
    if scope["type"] == "http":
        if not scope["path"].startswith(f"{PREFIX}/"):
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b"nothing here"})
            return
        paths = {name: scope[name][len(PREFIX) :] for name in ("path", "raw_path")}
        scope = {**scope, **paths}
    await app(scope, receive, send)


sock = socket.create_server(("127.0.0.1", 0))
print(sock.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config(behind_prefix, log_level="warning"))
asyncio.run(server.serve([sock]))
