"""`LocalServer`: a replica set of one member, in a data folder that processes can share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pymongo import AsyncMongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from alula._local_process import HOST, SECONDS_TO_START, LocalServerError
from alula._local_server import FolderServer
from alula.local_mongodb._mongod import Mongod

__all__ = ["LocalServer", "find_running", "form_replica_set"]

REPLICA_SET = "alula"
_PORT_FILE = "alula.port"
_TIMEOUT_MS = 10_000

_NOT_INITIATED = 94
_PAUSE = 0.02

_Client: TypeAlias = AsyncMongoClient[dict[str, Any]]


class LocalServer(FolderServer[Mongod]):
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

    temporary_prefix = "alula-mongodb-"

    def _process_in(self, folder: Path, port: int) -> Mongod:
        return Mongod(folder, port=port, replica_set=REPLICA_SET)

    async def _prepare(self, process: Mongod) -> None:
        await form_replica_set([process])
        (process.folder / _PORT_FILE).write_text(f"{process.port}\n", encoding="ascii")

    async def _find_running(self, folder: Path) -> int | None:
        return await find_running(folder)

    def _url_of(self, address: str) -> str:
        return f"mongodb://{address}/?replicaSet={REPLICA_SET}"


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
