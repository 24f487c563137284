"""`LocalServer`: a PostgreSQL in a temporary folder, or in one that processes can share."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from alula._local_process import HOST, SECONDS_TO_END, FolderInUse, LocalServerError
from alula.local_postgresql._postgres import Postgres

__all__ = ["LocalServer", "find_running"]

# What is in a temporary folder need not survive the loss of power. Nothing else is left out: a
# server that is killed and started again has all that it acknowledged.
_TEMPORARY: Final = ("fsync=off", "full_page_writes=off")

_PORT_LINE, _STATUS_LINE = 3, 7


class LocalServer:
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

    def __init__(
        self, folder: Path | str | None = None, *, port: int = 0, share: bool = False
    ) -> None:
        if share and folder is None:
            raise ValueError("LocalServer(share=True) needs the folder that is shared")
        self._folder = None if folder is None else Path(folder).absolute()
        self._port = port
        self._share = share
        self._shared_port: int | None = None
        self._postgres: Postgres | None = None

    def __repr__(self) -> str:
        return f"<LocalServer {self._postgres!r}>"

    @property
    def url(self) -> str:
        """The URL to connect to, with the port that was picked.

        Raises:
            LocalServerError: The server is not running.
        """
        if self._shared_port is not None:
            return f"postgresql://postgres@{HOST}:{self._shared_port}/postgres"
        if self._postgres is None:
            raise LocalServerError("the local server is not running; `await server.start()` first")
        return self._postgres.url

    async def start(self) -> Self:
        """Start the server and wait until it accepts connections. Does nothing if it is running.

        A server that died is started again at the same address, with the same data.

        Raises:
            PostgresMissing: No PostgreSQL is installed, or it cannot run here.
            FolderInUse: Another server uses the folder.
            LocalServerError: The server did not start.
        """
        if self._postgres is not None and self._postgres.is_running():
            return self
        if await self._finds_shared():
            return self
        postgres = self._postgres
        has_run = postgres is not None
        if postgres is None:
            temporary = self._folder is None
            folder = self._folder or Path(tempfile.mkdtemp(prefix="alula-postgresql-"))
            postgres = self._postgres = Postgres(
                folder, port=self._port, options=_TEMPORARY if temporary else ()
            )
        try:
            await postgres.start()
        except BaseException as error:
            if not has_run:  # else keep its data, even in a temporary folder, for the next attempt
                await self.stop(grace=0)
            # Another process may have started one in the meantime.
            if not (isinstance(error, FolderInUse) and await self._finds_shared()):
                raise
        return self

    async def _finds_shared(self) -> bool:
        """Look for the server of another process if ``share`` is set."""
        if self._share and self._folder is not None:
            self._shared_port = await find_running(self._folder)
        return self._shared_port is not None

    async def stop(self, grace: float = SECONDS_TO_END) -> None:
        """Stop the server, by force after ``grace`` seconds, and remove a temporary folder."""
        postgres, self._postgres, self._shared_port = self._postgres, None, None
        if postgres is not None:
            await postgres.stop(grace)
            if self._folder is None:
                shutil.rmtree(postgres.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()


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
