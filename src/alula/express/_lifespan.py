"""Start and stop: what surrounds all requests, and the gate before which early ones wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

__all__ = ["Gate", "Life"]

Lived: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]


class Gate:
    """Keeps requests waiting while an application is set up."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._admits = False

    def open(self, *, admits: bool) -> None:
        """Let those that wait, and all that follow, pass or be refused; the first call decides."""
        if not self._opened.is_set():
            self._admits = admits
            self._opened.set()

    async def admits(self) -> bool:
        """Wait until it is open; tell whether requests may pass."""
        await self._opened.wait()
        return self._admits


class Life:
    """A context that several servers share: entered for the first, left after the last.

    It is entered and left in one task of its own, as the cancel scopes and task groups want that
    people have in their lifespans.

    Args:
        lived: Makes the context, given the server.
    """

    def __init__(self, lived: Lived) -> None:
        self._lived = lived
        self._servers = 0
        self._task: asyncio.Task[None] | None = None

    async def begin(self, server: Any) -> None:
        """Enter the context if this is the first server; return once it is entered.

        Every server that begins has to `end`, also where this raises.

        Raises:
            Exception: Whatever entering it raises.
        """
        self._servers += 1
        if self._task is None:
            self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._over = asyncio.Event()
            self._task = asyncio.create_task(self._live(server, self._begun, self._over))
        task, begun = self._task, self._begun
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            if self._servers == 1 and not begun.done():
                task.cancel()  # nobody else waits for it
            raise

    async def end(self) -> None:
        """Leave the context if this was the last server; return once it is left.

        Raises:
            Exception: Whatever leaving it raises.
        """
        self._servers -= 1
        task = self._task
        if self._servers or task is None:
            return
        self._task = None
        self._over.set()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def _live(self, server: Any, begun: asyncio.Future[None], over: asyncio.Event) -> None:
        try:
            async with self._lived(server):
                begun.set_result(None)
                await over.wait()
        except BaseException as error:
            if begun.done() or not isinstance(error, Exception):
                begun.cancel()
                raise
            begun.set_exception(error)
