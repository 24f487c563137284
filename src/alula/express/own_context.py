"""A context for every request, where several come on one connection.

What a request sets in context variables would reach those behind it: asyncio goes on to read, and
uvicorn begins the next request, in the context of the one that was answered. Each could then be
taken for the work of the other's user.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context

__all__ = ["OwnContext"]


class OwnContext(asyncio.Protocol):
    """Stands before a protocol of uvicorn's: every request gets a copy of the first context.

    That is the context in which the connection was made, before any request.
    """

    _context: Context

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the context of the server."""
        self._context = copy_context()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Begin requests."""
        self._context.copy().run(super().data_received, data)

    def on_response_complete(self) -> None:
        """Read on, or begin a request that has come already."""
        self._context.copy().run(super().on_response_complete)  # type: ignore[misc]  # uvicorn's
