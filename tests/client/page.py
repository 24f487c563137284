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
from alula.express import express, serve_static

SOURCE = Path(alula.__file__).parent


def zipped() -> bytes:
    """Return the package as an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in SOURCE.rglob("*.py"):
            archive.write(path, path.relative_to(SOURCE.parent))
    return buffer.getvalue()


async def serve(pyodide: str) -> None:
    source = zipped()
    app = express()
    app.get(
        "/page", lambda _, res: res.type("text/html").send("<!doctype html><title>Page</title>")
    )
    app.get("/alula.zip", lambda _, res: res.type("application/zip").send(source))
    app.use("/pyodide", serve_static(pyodide))
    main, _ = make_apps()
    app.use("/api", main)
    await main.setup()
    server = await app.listen(0)
    print(server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.close()
    await main.teardown()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
