"""Sends the writes of several callers in one command, and stops it when a transaction holds it up.

MongoDB has no "skip locked": a command waits as long as another transaction keeps one of its
records or unique keys, and the writes behind that one wait with it. So a command that takes
unusually long is stopped on the server. What it had done by then is read; the rest is left to the
callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final, TypeAlias

from pymongo import ReadPreference
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from alula.adapters.mongodb._model import Collection
from alula.types import Id

__all__ = ["Patience", "WriteStopped", "acknowledge", "stored_now"]

Write: TypeAlias = Callable[[AsyncClientSession], Awaitable[None]]

_MIN_SECONDS: Final = 0.1
_MAX_SECONDS: Final = 2.0
_INTERRUPTED: Final = 11601


class WriteStopped(Exception):
    """The command was stopped, and what it had not done by then it will never do."""


class Patience:
    """How long the shared writes of one service may take before they are stopped.

    It is ten times as long as the last one took, and a tenth of a second, but no more than two
    seconds: a server that is busy must not get each write a second time.
    """

    def __init__(self) -> None:
        self._last = 0.0

    async def write(self, model: Collection, write: Write) -> None:
        """Send a command.

        Args:
            model: Its collection.
            write: Sends it with a session.

        Raises:
            WriteStopped: It took too long.
            PyMongoError: What ``write`` raises.
        """
        client = model.database.client
        began = monotonic()
        async with client.start_session() as session:
            task = asyncio.ensure_future(write(session))
            try:
                seconds = min(_MIN_SECONDS + 10 * self._last, _MAX_SECONDS)
                done, _ = await asyncio.wait({task}, timeout=seconds)
                if not done:
                    # A user may do this to sessions of its own. If the server does not have the
                    # command, the write goes on.
                    with suppress(PyMongoError):
                        await client.admin.command("killSessions", [session.session_id])
                await task
            except OperationFailure as error:
                if done or error.code != _INTERRUPTED:
                    raise
                raise WriteStopped from error
            finally:
                task.cancel()  # if this one was cancelled
                self._last = monotonic() - began


async def stored_now(model: Collection, ids: Sequence[Id], codec: Any) -> list[Any]:
    """Return the records with some ids as the primary has them now.

    Args:
        model: The collection.
        ids: Of the records.
        codec: The codec options for the records.
    """
    primary: Any = model.with_options(
        codec, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
    )
    records: list[Any] = await primary.find({"_id": {"$in": list(ids)}}).to_list()
    return records


async def acknowledge(model: Collection, id: Id) -> None:
    """Wait until what this client has written is acknowledged as the collection demands it.

    Args:
        model: The collection.
        id: Of a record that was written.

    Raises:
        PyMongoError: It is not acknowledged.
    """
    # It changes nothing, and such a write waits for all that came before it.
    nothing: Mapping[str, Any] = {"$setOnInsert": {"alula": None}}
    await model.update_one({"_id": id}, nothing)
