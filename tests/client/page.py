"""The reference app, and beside it a page with all that the client needs to run in it.

``python -m tests.client.page PYODIDE`` serves it until its standard input ends, and prints its
address; PYODIDE is the folder of that npm package.
"""

from __future__ import annotations

import asyncio
import io
import sys
import zipfile
from pathlib import Path

from tests.conformance.reference_app import make_apps

import alula
from alula.errors import Conflict
from alula.express import express, serve_static

SOURCE = Path(alula.__file__).parent


def zipped() -> bytes:
    """Return the package as an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in SOURCE.rglob("*.py"):
            archive.write(path, path.relative_to(SOURCE.parent))
    return buffer.getvalue()


class Words:
    """Streams the words of a text; "conflict" is an error, and behind "wait" nothing comes."""

    closed = 0

    async def say(self, data, params):
        try:
            for word in data["text"].split():
                if word == "conflict":
                    raise Conflict("taken")
                if word == "wait":
                    await asyncio.Event().wait()
                yield word
        finally:
            self.closed += 1

    async def count(self, data, params):
        return {"closed": self.closed}


async def serve(pyodide: str) -> None:
    source = zipped()
    app = express()
    app.get(
        "/page", lambda _, res: res.type("text/html").send("<!doctype html><title>Page</title>")
    )
    app.get("/alula.zip", lambda _, res: res.type("application/zip").send(source))
    app.use("/pyodide", serve_static(pyodide))
    main, _ = make_apps()
    main.use("words", Words(), methods=["say", "count"])
    app.use("/api", main)
    await main.setup()
    server = await app.listen(0)
    print(server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()
    await main.teardown()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
