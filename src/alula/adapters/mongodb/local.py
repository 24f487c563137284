"""A MongoDB of one's own, for development and tests: a replica set on this machine.

It takes the mongod on the PATH or that of the extra ``embedded``. A replica set of one member has
all that a larger one has but safety, transactions included.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo import AsyncMongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

from alula.adapters.mongodb._mongod import (
    HOST,
    SECONDS_TO_END,
    SECONDS_TO_START,
    Mongod,
    find_mongod,
)
from alula.adapters.mongodb._mongod_errors import FolderInUse, LocalServerError, MongodMissing
from alula.adapters.mongodb._running_server import find_running, note_port

__all__ = [
    "FolderInUse",
    "LocalServer",
    "LocalServerError",
    "Mongod",
    "MongodMissing",
    "find_mongod",
    "form_replica_set",
]

NAME = "alula"

_NOT_INITIATED = 94
_PAUSE = 0.02


class LocalServer:
    """A mongod as a replica set of one member, on the loopback interface.

    ``async with LocalServer("data") as server:`` starts and stops it; `start` and `stop` do the
    same for those who keep it elsewhere. It never outlives the process that started it.

    Args:
        folder: Where the data lies and stays; None for a folder that is removed in the end.
        port: TCP port, 0 for one that is free.
        share: Whether to use the server that another process runs in the folder already, such as
            the application's own while somebody looks at its data. It ends with that process.

    Raises:
        ValueError: ``share`` without a folder.
    """

    def __init__(
        self, folder: Path | str | None = None, *, port: int = 0, share: bool = False
    ) -> None:
        if share and folder is None:
            raise ValueError("LocalServer(share=True) needs the folder that is shared")
        self._given = None if folder is None else Path(folder).absolute()
        self._port = port
        self._share = share
        self._shared_port: int | None = None
        self._mongod: Mongod | None = None

    def __repr__(self) -> str:
        return f"<LocalServer {self._mongod!r}>"

    @property
    def url(self) -> str:
        """The URL for a client, with the port that was found free.

        Raises:
            LocalServerError: It is not running.
        """
        if self._shared_port is not None:
            return f"mongodb://{HOST}:{self._shared_port}/?replicaSet={NAME}"
        if self._mongod is None:
            raise LocalServerError("the local server is not running; `await server.start()` first")
        return f"mongodb://{self._mongod.address}/?replicaSet={NAME}"

    async def start(self) -> Self:
        """Start it, and return once it takes writes; nothing where it runs already.

        One that has died is started again at the same address, with the same data.

        Raises:
            MongodMissing: There is no mongod, or it cannot run here.
            FolderInUse: Another mongod works in the data folder.
            LocalServerError: It did not start.
        """
        if self._mongod is not None and self._mongod.is_running():
            return self
        if not await self._is_shared():
            try:
                await self._start()
            except FolderInUse:  # another process may have begun to start one meanwhile
                if not await self._is_shared():
                    raise
        return self

    async def _is_shared(self) -> bool:
        """Look for the server of another process, where that is wanted."""
        if self._share and self._given is not None:
            self._shared_port = await find_running(self._given)
        return self._shared_port is not None

    async def _start(self) -> None:
        died, mongod = self._mongod is not None, self._mongod
        if mongod is None:
            folder = self._given or Path(tempfile.mkdtemp(prefix="alula-mongodb-"))
            mongod = self._mongod = Mongod(folder, port=self._port, replica_set=NAME)
        try:
            await mongod.start()
            await form_replica_set([mongod])
            note_port(mongod.folder, mongod.port)
        except BaseException:
            if died:  # its data stay for another attempt
                await mongod.stop(grace=0)
            else:
                await self.stop(grace=0)
            raise

    async def stop(self, grace: float = SECONDS_TO_END) -> None:
        """Stop it, by force after ``grace`` seconds, and remove the folder if it is its own."""
        mongod, self._mongod, self._shared_port = self._mongod, None, None
        if mongod is not None:
            await mongod.stop(grace)
            if self._given is None:
                shutil.rmtree(mongod.folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()


async def form_replica_set(
    members: Sequence[Mongod], settings: Mapping[str, Any] | None = None
) -> None:
    """Make running servers one replica set, and return once it has a primary.

    Servers that were a set before keep their data; their addresses may have changed.

    Args:
        members: Servers, all with the same ``replica_set``.
        settings: The ``settings`` of the set, such as ``{"electionTimeoutMillis": 1000}``.

    Raises:
        LocalServerError: It has no primary in time.
    """
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
        HOST, members[0].port, directConnection=True, serverSelectionTimeoutMS=5_000
    )
    async with client:
        wanted = {
            "_id": members[0].replica_set,
            "members": [{"_id": n, "host": member.address} for n, member in enumerate(members)],
            "settings": dict(settings or {}),
        }
        await _configure(client, wanted)
        end = time.monotonic() + SECONDS_TO_START
        while not await _has_primary(client):
            if time.monotonic() > end:
                raise LocalServerError(f"no primary was elected; see {members[0].log}")
            await asyncio.sleep(_PAUSE)


async def _configure(client: AsyncMongoClient[dict[str, Any]], wanted: dict[str, Any]) -> None:
    try:
        found = (await client.admin.command("replSetGetConfig"))["config"]
    except OperationFailure as error:
        if error.code != _NOT_INITIATED:
            raise
        await client.admin.command("replSetInitiate", wanted)
        return
    if [each["host"] for each in found["members"]] != [each["host"] for each in wanted["members"]]:
        # By force: under its new address a member does not find itself in the set.
        found["members"] = wanted["members"]
        await client.admin.command("replSetReconfig", found, force=True)


async def _has_primary(client: AsyncMongoClient[dict[str, Any]]) -> bool:
    try:
        hello = await client.admin.command("hello")
    except ConnectionFailure:  # members drop connections when they change their state
        return False
    return "primary" in hello
