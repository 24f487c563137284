"""A database server for development and tests, in a folder that processes can share."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from alula._local_process import (
    HOST,
    SECONDS_TO_END,
    FolderInUse,
    LocalProcess,
    LocalServerError,
    owner_of_servers,
)

__all__ = ["FolderServer"]

Process = TypeVar("Process", bound=LocalProcess)


class FolderServer(ABC, Generic[Process]):
    """A server on the loopback interface, with its data in a folder.

    Use it as a context manager, or call `start` and `stop`. The server never outlives the process
    that started it.

    Args:
        folder: The folder for its data, which is kept. None uses a temporary folder.
        port: TCP port; 0 picks a free one.
        share: Use the server that another process already runs on this folder, such as that of
            the application while a script looks at its data. It ends with that process.

    Raises:
        ValueError: ``share`` is set without a folder.
    """

    temporary_prefix: ClassVar[str]
    """How the name of a temporary folder begins."""

    def __init__(
        self, folder: Path | str | None = None, *, port: int = 0, share: bool = False
    ) -> None:
        if share and folder is None:
            raise ValueError("LocalServer(share=True) needs the folder that is shared")
        self._folder = None if folder is None else Path(folder).absolute()
        self._port = port
        self._share = share
        self._shared_port: int | None = None
        self._process: Process | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._process!r}>"

    @property
    def url(self) -> str:
        """The URL to connect to, with the port that was picked.

        Raises:
            LocalServerError: The server is not running.
        """
        if self._shared_port is not None:
            return self._url_of(f"{HOST}:{self._shared_port}")
        if self._process is None:
            raise LocalServerError("the local server is not running; `await server.start()` first")
        return self._url_of(self._process.address)

    async def start(self) -> Self:
        """Start the server and wait until it accepts writes. Does nothing if it is running.

        A server that died is started again at the same address, with the same data.

        Raises:
            ProgramMissing: No server is installed, or it cannot run here.
            FolderInUse: Another server uses the folder.
            LocalServerError: The server did not start.
        """
        if self._process is not None and self._process.is_running():
            return self
        if await self._finds_shared():
            return self
        process = self._process
        has_run = process is not None
        if process is None:
            folder = self._folder or Path(tempfile.mkdtemp(prefix=self.temporary_prefix))
            process = self._process = self._process_in(folder, self._port)
            if self._share:
                process.owner = owner_of_servers()
        try:
            await process.start()
            await self._prepare(process)
        except BaseException as error:
            if has_run:  # keep its data, even in a temporary folder, for the next attempt
                await process.stop(grace=0)
            else:
                await self.stop(grace=0)
            # Another process may have started one in the meantime.
            if not (isinstance(error, FolderInUse) and await self._finds_shared()):
                raise
        return self

    async def stop(self, grace: float = SECONDS_TO_END) -> None:
        """Stop the server, by force after ``grace`` seconds, and remove a temporary folder.

        Below `alula dev`, a shared server runs on until that command ends.
        """
        process, self._process, self._shared_port = self._process, None, None
        if process is not None and process.owner is not None and process.is_running():
            process.leave()
        elif process is not None:
            await process.stop(grace)
            if self._folder is None:
                shutil.rmtree(process.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _finds_shared(self) -> bool:
        """Look for the server of another process if ``share`` is set."""
        if self._share and self._folder is not None:
            self._shared_port = await self._find_running(self._folder)
        return self._shared_port is not None

    @abstractmethod
    def _process_in(self, folder: Path, port: int) -> Process:
        """Return the process for a folder, not yet started."""

    async def _prepare(self, process: Process) -> None:
        """Make sure that a process that has started accepts writes, and can be found."""
        del process

    @abstractmethod
    async def _find_running(self, folder: Path) -> int | None:
        """Return the port of the server on a folder, None if none there accepts writes.

        Args:
            folder: The absolute path of the folder.
        """

    @abstractmethod
    def _url_of(self, address: str) -> str:
        """Return the URL of the server at ``host:port``."""
