"""`LocalServer`: a replica set of one member, in a data folder that processes can share."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from pymongo import AsyncMongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from alula._local_process import (
    HOST,
    SECONDS_TO_END,
    SECONDS_TO_START,
    FolderInUse,
    LocalServerError,
)
from alula.local_mongodb._mongod import Mongod

__all__ = ["LocalServer", "find_running", "form_replica_set"]

REPLICA_SET = "alula"
_PORT_FILE = "alula.port"
_TIMEOUT_MS = 10_000

_NOT_INITIATED = 94
_PAUSE = 0.02

_Client: TypeAlias = AsyncMongoClient[dict[str, Any]]


class LocalServer:
    """A mongod on the loopback interface, as a replica set of one member.

    Use it as a context manager, or call `start` and `stop`. The server never outlives the process
    that started it::

        async with LocalServer("data") as server:
            client = AsyncMongoClient(server.url)

    Args:
        folder: The data folder, which is kept. None uses a temporary folder.
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
        self._mongod: Mongod | None = None

    def __repr__(self) -> str:
        return f"<LocalServer {self._mongod!r}>"

    @property
    def url(self) -> str:
        """The URL to connect to, with the port that was picked.

        Raises:
            LocalServerError: The server is not running.
        """
        if self._shared_port is not None:
            return f"mongodb://{HOST}:{self._shared_port}/?replicaSet={REPLICA_SET}"
        if self._mongod is None:
            raise LocalServerError("the local server is not running; `await server.start()` first")
        return f"mongodb://{self._mongod.address}/?replicaSet={REPLICA_SET}"

    async def start(self) -> Self:
        """Start the server and wait until it accepts writes. Does nothing if it is running.

        A server that died is started again at the same address, with the same data.

        Raises:
            MongodMissing: No mongod is installed, or it cannot run here.
            FolderInUse: Another mongod uses the data folder.
            LocalServerError: The server did not start.
        """
        if self._mongod is not None and self._mongod.is_running():
            return self
        if await self._finds_shared():
            return self
        mongod = self._mongod
        has_run = mongod is not None
        if mongod is None:
            folder = self._folder or Path(tempfile.mkdtemp(prefix="alula-mongodb-"))
            mongod = self._mongod = Mongod(folder, port=self._port, replica_set=REPLICA_SET)
        try:
            await mongod.start()
            await form_replica_set([mongod])
            (mongod.folder / _PORT_FILE).write_text(f"{mongod.port}\n", encoding="ascii")
        except BaseException as error:
            if has_run:  # keep its data, even in a temporary folder, for the next attempt
                await mongod.stop(grace=0)
            else:
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
        mongod, self._mongod, self._shared_port = self._mongod, None, None
        if mongod is not None:
            await mongod.stop(grace)
            if self._folder is None:
                shutil.rmtree(mongod.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()


async def form_replica_set(
    members: Sequence[Mongod], settings: Mapping[str, Any] | None = None
) -> None:
    """Form a replica set of running servers and wait until it has a primary.

    Servers that have been a replica set before keep their data, even at new addresses.

    Args:
        members: Servers with the same ``replica_set``.
        settings: Settings of the replica set, such as ``{"electionTimeoutMillis": 1000}``.

    Raises:
        LocalServerError: No primary was elected in time.
    """
    client: _Client = AsyncMongoClient(
        HOST, members[0].port, directConnection=True, serverSelectionTimeoutMS=5_000
    )
    async with client:
        hosts = [member.address for member in members]
        wanted = {
            "_id": members[0].replica_set,
            "members": [{"_id": n, "host": host} for n, host in enumerate(hosts)],
            "settings": dict(settings or {}),
        }
        try:
            config = (await client.admin.command("replSetGetConfig"))["config"]
        except OperationFailure as error:
            if error.code != _NOT_INITIATED:
                raise
            await client.admin.command("replSetInitiate", wanted)
        else:
            if [member["host"] for member in config["members"]] != hosts:
                # With force: a member that moved to another port does not find itself in the old
                # config.
                config["members"] = wanted["members"]
                await client.admin.command("replSetReconfig", config, force=True)
        end = time.monotonic() + SECONDS_TO_START
        while not await _has_primary(client):
            if time.monotonic() > end:
                raise LocalServerError(f"no primary was elected; see {members[0].log}")
            await asyncio.sleep(_PAUSE)


async def _has_primary(client: _Client) -> bool:
    try:
        hello = await client.admin.command("hello")
    except ConnectionFailure:  # members drop connections when their state changes
        return False
    return "primary" in hello


async def find_running(folder: Path) -> int | None:
    """Return the port of the server on a data folder, None if no server there accepts writes.

    Args:
        folder: The absolute path of the data folder.
    """
    try:
        port = int((folder / _PORT_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    try:  # a plain connection first: the driver would retry a closed port until its timeout
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return None
    writer.close()
    async with AsyncMongoClient[dict[str, object]](
        HOST,
        port,
        directConnection=True,
        serverSelectionTimeoutMS=_TIMEOUT_MS,
        socketTimeoutMS=_TIMEOUT_MS,
    ) as client:
        try:
            options = await client.admin.command("getCmdLineOpts")
            hello = await client.admin.command("hello")
        except PyMongoError:
            return None
    # The port may belong to another server by now.
    same_folder = options["parsed"]["storage"]["dbPath"] == str(folder)
    return port if same_folder and hello["isWritablePrimary"] else None
