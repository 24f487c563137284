"""How an application is started and stopped: servers, the lifespan around them, readiness."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Literal, Self, TypeAlias

from starlette.types import Receive, Scope, Send

from alula.express._endpoints import Endpoints
from alula.express._lifespan import ServerSlot
from alula.express._server import Server, prepare_server, run_until_signal, start_server

__all__ = ["ServedApplication"]

OuterLifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Mapping[str, Any]]]
"""Makes a context around the whole lifespan; it yields the state of requests."""


class ServedApplication(ABC):
    """An ASGI application that can start its own server, one at a time.

    Args:
        outer_lifespan: The lifespan of an application around this one, if there is one.

    Attributes:
        early_paths: Paths whose requests do not wait while the application is set up.
        endpoints: What is served below a path of its own, before any middleware.
        server_options: Defaults for the options of `listen` and `serve`.
    """

    def __init__(self, outer_lifespan: OuterLifespan | None = None) -> None:
        self.early_paths: set[str] = set()
        self._outer_lifespan = outer_lifespan or (lambda: nullcontext[Mapping[str, Any]]({}))
        self.endpoints = Endpoints()
        self.server_options: dict[str, Any] = {}
        self._server_slot = ServerSlot(self._lifespan, self.endpoints.close)
        self._is_draining = False

    @abstractmethod
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""

    @property
    def is_ready(self) -> bool:
        """Whether the setup has finished."""
        return self._server_slot.gate is None

    @property
    def readiness(self) -> Literal["starting", "ready", "draining"]:
        """What a readiness probe gets; it is draining after `announce_shutdown`."""
        if self._is_draining:
            return "draining"
        return "ready" if self.is_ready else "starting"

    def announce_shutdown(self) -> None:
        """Tell load balancers to send nothing more: readiness is a 503 until the next start.

        Requests are served as before. To stop a server without losing a request, call this, wait
        until the load balancers have probed, and close the server then.
        """
        self._is_draining = True

    async def setup(self, server: Any = None) -> Self:  # noqa: ARG002  # the interface's name
        """Get ready; a plain web application has nothing to do."""
        return self

    async def teardown(self) -> Self:
        """Close the server that `listen` has started, and clean up after its last requests.

        Raises:
            Exception: What the cleanup raises.
        """
        await self._server_slot.close()
        return self

    async def listen(self, port: int, host: str = "127.0.0.1", **options: Any) -> Server:
        """Start a server, then set the application up; requests that arrive in between wait.

        Args:
            port: TCP port, 0 for any that is free.
            host: Address to listen on; ``"0.0.0.0"`` for every network of this machine.
            options: Further options of ``uvicorn.Config``, such as ``ssl_certfile``.

        Raises:
            OSError: The server cannot listen on the port.
            RuntimeError: The application has a server already.
            Exception: What ``setup`` raises; the server is closed then.
        """
        return await self._server_slot.start_before_setup(
            partial(start_server, self, port, host, **{**self.server_options, **options})
        )

    async def serve(
        self,
        sock: socket.socket,
        *,
        accept_during_setup: bool = False,
        late_request_seconds: float = 0,
        **options: Any,
    ) -> Server:
        """Set the application up, then start a server on a listening socket.

        Several processes can share a socket; `alula serve` has them do so. Connections wait in the
        socket until one of the processes is ready.

        Args:
            sock: The socket.
            accept_during_setup: Whether to start the server first, as `listen` does, so that
                health probes get a response while the application is set up.
            late_request_seconds: How long after ``close()`` requests are still served that arrive
                on open connections.
            options: As in `listen`.

        Raises:
            RuntimeError: The application has a server already.
            Exception: What ``setup`` raises; with ``accept_during_setup`` the socket is closed
                then.
        """
        options = {**self.server_options, **options}
        server = prepare_server(self, sock, late_request_seconds=late_request_seconds, **options)
        if accept_during_setup:
            return await self._server_slot.start_before_setup(server.start)
        return await self._server_slot.start_after_setup(server)

    def run(self, port: int = 3030, host: str = "127.0.0.1", **options: Any) -> None:
        """Listen until SIGINT (Ctrl+C) or SIGTERM, for scripts: ``app.run(3030)``.

        A second signal does not wait for the requests that are under way. The arguments are those
        of `listen`.

        Raises:
            SystemExit: The port is not free; a line on the standard error says which.
            KeyboardInterrupt: For a second Ctrl+C.
            Exception: As `listen`.
        """
        run_until_signal(partial(self.listen, port, host, **options))

    @asynccontextmanager
    async def _lifespan(self, server: Server | None) -> AsyncGenerator[Mapping[str, Any]]:
        """Set the application up, within the lifespan around it."""
        self._is_draining = False
        async with self._outer_lifespan() as state:
            await self.setup(server)
            yield state
