"""An end for connections whose client owes the rest of a request and sends nothing more.

uvicorn waits for ever, so that whoever opens connections and stays silent keeps them all. One look
from time to time costs nothing for each request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from alula.errors import FrameworkError, Timeout

__all__ = ["PATIENCE_SECONDS", "Patience"]

PATIENCE_SECONDS: float = 20
"""After once to twice this time without progress a connection is closed."""


class Patience(asyncio.Protocol):
    """Stands before a protocol of uvicorn's, and ends connections whose client stays silent."""

    transport: asyncio.Transport
    connections: set[Any]
    flow: Any
    scope: Any  # of the request whose head is read, or was read last
    cycle: Any  # the last request whose head is complete
    timeout_keep_alive_task: Any  # set while nothing is owed: uvicorn's own timer
    _received = 0
    _owed: object = None
    _look_later: asyncio.TimerHandle

    def refuse(self, error: FrameworkError) -> None:
        """Answer an error, and close the connection; the class in front says how."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to look at a connection."""
        super().connection_made(transport)
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        self._look_later.cancel()
        super().connection_lost(exc)

    def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        self._look_later = loop.call_later(PATIENCE_SECONDS, self._look)

    def _look(self) -> None:
        if self not in self.connections:  # a WebSocket has taken it over
            return
        before, self._owed = self._owed, self._what_is_owed()
        if self._owed is None or self._owed != before:
            self._look_again()
        elif self._received == 0 or (self.cycle is not None and self.cycle.response_started):
            self.transport.close()
        else:
            self.refuse(Timeout("The request did not arrive in time"))

    def _what_is_owed(self) -> object:
        """Return what stays the same from look to look while a client owes and sends nothing.

        That is the request whose head is not complete, however slowly bytes of it trickle in, or
        the number of bytes that have come of a body; None where nothing is owed.
        """
        scope, cycle = self.scope, self.cycle
        if cycle is None or (cycle.response_complete and scope is not cycle.scope):
            return "head", id(scope)
        if cycle.response_complete:
            return self._received if self.timeout_keep_alive_task is None else None
        return self._received if cycle.more_body and not self.flow.read_paused else None
