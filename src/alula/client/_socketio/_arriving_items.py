"""The items of one stream, as a connection brings them, until they are read, without any I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from alula.client._codec import Response, Sendable, error_of_json, with_request_error
from alula.errors import BadGateway, FrameworkError
from alula.types import is_list

__all__ = ["ArrivingItems"]

_BATCHES: Final = 16
"""How many batches are read at once: half of what a server sends on its own, so that the other half
comes meanwhile."""

_MAX_WAITING: Final = 1_000
"""How many batches may wait. A server that asks before it sends never sends so many."""


class _Tell(Protocol):
    def __call__(self, items: ArrivingItems, event: str, *values: object) -> None: ...


class ArrivingItems:
    """The items of one stream, for one reader.

    Args:
        request: The call, for errors.
        tell: Tells the server of this stream: the name of an event, and arguments.

    Attributes:
        request: As given.
        is_over: Whether nothing more arrives.
    """

    def __init__(self, request: Sendable, tell: _Tell) -> None:
        self.request = request
        self.is_over = False
        self._tell = tell
        self._batches: list[list[Any]] = []
        self._error: FrameworkError | None = None
        self._given = 0  # items that the reader has, and of which the server does not know that
        self._arrived = asyncio.Event()

    async def read(self) -> list[list[Any]]:
        """Return the next batches; none at the end. It ends the wait for those that were read.

        Raises:
            FrameworkError: The stream has failed, or its connection broke.
        """
        if self._given:
            given, self._given = self._given, 0
            self._tell(self, "stream:more", given)
        while not self._batches and not self.is_over:
            self._arrived.clear()
            await self._arrived.wait()
        read, self._batches = self._batches[:_BATCHES], self._batches[_BATCHES:]
        self._given = sum(map(len, read))
        if not read and self._error is not None:
            raise self._error
        return read

    async def close(self) -> None:
        """Leave the stream."""
        self.leave()

    def leave(self) -> None:
        """Do the same as `close`."""
        if not self.is_over:
            self.end(None)
            self._tell(self, "stream:end")

    # -- what the connection tells -------------------------------------------------------------

    def take(self, values: Sequence[Any]) -> None:
        """Take an event of the stream: a list of items, or None and perhaps an error."""
        batch, error, *_ = [*values, None, None]
        if is_list(batch) and len(self._batches) < _MAX_WAITING:
            if batch:
                self._batches.append(batch)
                self._arrived.set()
        elif batch is None:
            failed = Response(502, {}, b"")
            self.end(None if error is None else error_of_json(self.request, error, failed))
        else:
            refused = BadGateway("the called server sent what is no part of a stream")
            what = "got a list that was not asked for" if is_list(batch) else f"got {batch!r:.200}"
            self.leave()
            self._error = with_request_error(refused, self.request, what)

    def wait_on(self) -> None:
        """Learn that the server lives, so that a reader waits on: it gets a batch without items."""
        if not self._batches:
            self._batches.append([])
            self._arrived.set()

    def end(self, error: FrameworkError | None) -> None:
        """End the stream behind the items that have arrived.

        Args:
            error: Raised at the end, None for none.
        """
        self.is_over, self._error = True, error
        self._arrived.set()
