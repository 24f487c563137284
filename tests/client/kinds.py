"""Every kind of client, so that one test speaks to all of them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from alula.client import create_client, create_sync_client, rest, socketio


@dataclass(frozen=True)
class Kind:
    """A library, and whether the client waits or blocks."""

    library: str
    synchronous: bool

    def __str__(self) -> str:
        return f"{self.library}-{'sync' if self.synchronous else 'async'}"

    def connection(self, url: str, *given: Any, **options: Any) -> Any:
        """Return a connection; `given` is a client of the library."""
        if self.library == "socketio":
            return socketio(url, *given, options=options)
        return getattr(rest(url), self.library)(*given, options=options)

    @asynccontextmanager
    async def client(self, url: str, **options: Any) -> AsyncIterator[Any]:
        """Yield a client, closed at the end."""
        create: Callable[[], Any] = create_sync_client if self.synchronous else create_client
        client = create().configure(self.connection(url, **options))
        try:
            yield client
        finally:
            await settled(client.close())


KINDS = [
    *(Kind(library, synchronous=False) for library in ("fetch", "httpx", "aiohttp")),
    *(Kind(library, synchronous=True) for library in ("fetch", "httpx", "aiohttp")),
]
WAITING = KINDS[:3]
SOCKETS = [Kind("socketio", synchronous=False), Kind("socketio", synchronous=True)]


async def settled(value: Any) -> Any:
    """Return what a call answers; that of a synchronous client has done so."""
    return await value if inspect.isawaitable(value) else value


async def all_of(records: Any) -> list[Any]:
    """Return everything that an iteration yields."""
    if hasattr(records, "__aiter__"):
        return [record async for record in records]
    return list(records)
