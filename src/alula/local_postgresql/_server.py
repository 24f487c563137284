"""`LocalServer`: a PostgreSQL in a temporary folder, or in one that processes can share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from alula._local_process import HOST
from alula._local_server import FolderServer
from alula.local_postgresql._postgres import Postgres, url_of

__all__ = ["LocalServer", "find_running"]

# What is in a temporary folder need not survive the loss of power. Nothing else is left out: a
# server that is killed and started again has all that it acknowledged.
_TEMPORARY: Final = ("fsync=off", "full_page_writes=off")

_PORT_LINE, _STATUS_LINE = 3, 7


class LocalServer(FolderServer[Postgres]):
    """A PostgreSQL on the loopback interface.

    Use it as a context manager, or call `start` and `stop`. The server never outlives the process
    that started it::

        async with LocalServer("data") as server:
            database = Database(server.url)

    Args:
        folder: The folder for its data, which is kept. None uses a temporary folder.
        port: TCP port; 0 picks a free one.
        share: Use the server that another process already runs on this folder, such as that of
            the application while a script looks at its data. It ends with that process.

    Raises:
        ValueError: ``share`` is set without a folder.
    """

    temporary_prefix = "alula-postgresql-"

    def _process_in(self, folder: Path, port: int) -> Postgres:
        options = _TEMPORARY if self._folder is None else ()
        return Postgres(folder, port=port, options=options)

    async def _find_running(self, folder: Path) -> int | None:
        return await find_running(folder)

    def _url_of(self, address: str) -> str:
        return url_of(address)


async def find_running(folder: Path) -> int | None:
    """Return the port of the server on a folder, None if no server there accepts connections.

    Args:
        folder: The absolute path of the folder.
    """
    try:
        lines = (folder / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        if lines[_STATUS_LINE].strip() != "ready":
            return None
        port = int(lines[_PORT_LINE])
        # The file of a server that was killed stays.
        _, writer = await asyncio.open_connection(HOST, port)
    except (OSError, ValueError, IndexError):
        return None
    writer.close()
    return port
