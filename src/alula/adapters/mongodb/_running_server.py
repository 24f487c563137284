"""The server that another process runs in a data folder, found by what that one noted there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from alula.adapters.mongodb._mongod import HOST

__all__ = ["find_running", "note_port"]

_FILE = "alula.port"
_MILLISECONDS = 10_000


def note_port(folder: Path, port: int) -> None:
    """Leave word in a data folder of the port of its server."""
    (folder / _FILE).write_text(f"{port}\n", encoding="ascii")


async def find_running(folder: Path) -> int | None:
    """Return the port of the server that works in a folder and takes writes; None without one.

    Args:
        folder: Its absolute path.
    """
    try:
        port = int((folder / _FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return port if await _works_in(folder, port) else None


async def _works_in(folder: Path, port: int) -> bool:
    """Tell whether it is that server which listens: the port may be another's by now."""
    try:  # the driver would try again until its time is over
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    async with AsyncMongoClient[dict[str, object]](
        HOST,
        port,
        directConnection=True,
        serverSelectionTimeoutMS=_MILLISECONDS,
        socketTimeoutMS=_MILLISECONDS,
    ) as client:
        try:
            options = await client.admin.command("getCmdLineOpts")
            hello = await client.admin.command("hello")
        except PyMongoError:
            return False
    place = options["parsed"]["storage"]["dbPath"]
    return bool(hello["isWritablePrimary"]) and place == str(folder)
