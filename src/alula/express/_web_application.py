"""`WebApplication`: a router that is an ASGI application. It only wires the other modules."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal, Self, overload

from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from alula._app import call_plugin
from alula.errors import Unavailable
from alula.express._chain import NextFunction, run_steps
from alula.express._connection_limits import MAX_HEADERS, head_too_large
from alula.express._existing_application import ExistingApplication
from alula.express._final_handler import final_handler, report_silence
from alula.express._lifespan import ServerGroup, run_asgi_lifespan
from alula.express._request import Request
from alula.express._response import Response
from alula.express._routing import Router, asgi_step
from alula.express._server import Server, prepare_server, run_until_signal, start_server
from alula.express._settings import QueryParser, check_setting, query_parser

__all__ = ["WebApplication"]


class WebApplication(Router):
    """Middleware and routes as an ASGI application, without services: ``express()``.

    Args:
        existing: A Starlette or FastAPI application to extend.

    Attributes:
        settings: Settings by name. ``query parser`` is the function that reads query strings,
            ``body limit`` the size limit of bodies whose parser has none of its own.
        early_paths: Paths whose requests do not wait while the application is set up.
    """

    _debug: bool = False

    def __init__(self, existing: Starlette | None = None) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.early_paths: set[str] = set()
        self._servers = ServerGroup(self._lifespan)
        self._is_draining = False
        self._existing = None if existing is None else ExistingApplication(existing, self)
        if self._existing is not None:
            self.add(self._existing.step())

    # -- settings ------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> Self:
        """Set a setting.

        Raises:
            TypeError: ``query parser`` is not a function of the query string.
            ValueError: ``body limit`` is not a size.
        """
        check_setting(name, value)
        self.settings[name] = value
        return self

    @overload
    def get(self, path: str) -> Any: ...
    @overload
    def get(self, path: str, *handlers: Any) -> Self: ...
    def get(self, path: str, *handlers: Any) -> Any:
        """Register a route for GET; with one name that starts with no slash, read a setting.

        Raises:
            TypeError: A route without a handler.
            ValueError: A handler for something that is not a route.
        """
        if path.startswith("/") or path == "*":
            return super().get(path, *handlers)
        if handlers:
            raise ValueError(
                f"get({path!r}, ...) is neither a route nor a setting: a route starts with a slash"
                f" ({'/' + path!r}), and settings are read by app.settings.get({path!r})"
            )
        return self.settings.get(path)

    @property
    def debug(self) -> bool:
        """Whether clients see the messages of unexpected errors."""
        return self._debug

    @debug.setter
    def debug(self, value: bool) -> None:
        self._debug = value

    @property
    def query_parser(self) -> QueryParser:
        """The function that reads query strings: the setting ``query parser``, or Alula's own."""
        return query_parser(self.settings)

    def configure(self, plugin: Callable[[Self], object]) -> Self:
        """Call a plugin with this application (see `App.configure`).

        Raises:
            TypeError: It is not a plugin, or not one for such an application.
        """
        call_plugin(plugin, self)
        return self

    # -- requests ------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        servers = self._servers
        if servers.gate is not None and not await servers.admits(scope, self.early_paths):
            await self._refuse(scope, receive, send)
        elif self._existing is not None and not self._existing.has_passed(scope):
            await self._existing(scope, receive, send)
        elif scope["type"] == "http":
            req = Request(self, scope, receive)
            res = Response(req)
            fallback = None if self._existing is None else self._existing.routing
            after_last = partial(final_handler, req, res, fallback)
            # Here, and not in the server: any ASGI server may run this.
            if len(scope["headers"]) > MAX_HEADERS:
                await after_last(head_too_large(f"The request has over {MAX_HEADERS} headers"))
            else:
                await run_steps(self.steps_for(req), req, res, after_last)
                if not res.headers_sent:
                    await report_silence(self._steps, req, res, after_last)
            await res.finish(scope, req.receive, send)
        elif scope["type"] == "lifespan":
            await run_asgi_lifespan(self._lifespan, scope, receive, send)
        elif self._existing is not None:
            await self._existing.routing(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise ValueError(f"{self!r} serves no ASGI connection of the type {scope['type']!r}")

    async def handle(self, req: Request, res: Response, next: NextFunction) -> None:
        """Run as a sub-application mounted in another: ``req.app`` is this one meanwhile."""
        if self._existing is not None:
            asgi_step(self).function(req, res, next)
            return
        outer = req.app

        async def leave(error: Exception | None = None) -> None:
            req.app = outer
            try:
                await next(error)
            finally:
                req.app = self

        req.app = self
        try:
            await run_steps(self._steps, req, res, leave)
        finally:
            req.app = outer

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            req = Request(self, scope, receive)
            res = Response(req)
            await final_handler(req, res, None, Unavailable("The server could not start"))
            await res.finish(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1013})

    # -- start and stop ------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the setup has finished."""
        return self._servers.gate is None

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
        """Close the servers that `listen` has started, and clean up after their last requests.

        Raises:
            Exception: What the cleanup raises.
        """
        await self._servers.close()
        return self

    async def listen(self, port: int, host: str = "127.0.0.1", **options: Any) -> Server:
        """Start a server, then set the application up; requests that arrive in between wait.

        Args:
            port: TCP port, 0 for any that is free.
            host: Address to listen on; ``"0.0.0.0"`` for every network of this machine.
            options: Further options of ``uvicorn.Config``, such as ``ssl_certfile``.

        Raises:
            OSError: The server cannot listen on the port.
            Exception: What ``setup`` raises; the server is closed then.
        """
        return await self._servers.start_before_setup(
            partial(start_server, self, port, host, **options)
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
            Exception: What ``setup`` raises; with ``accept_during_setup`` the socket is closed
                then.
        """
        server = prepare_server(self, sock, late_request_seconds=late_request_seconds, **options)
        if accept_during_setup:
            return await self._servers.start_before_setup(server.start)
        return await self._servers.start_after_setup(server)

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
    async def _lifespan(self, server: Server | None) -> AsyncIterator[Mapping[str, Any]]:
        """Set the application up, within the lifespan of the existing application."""
        self._is_draining = False
        async with AsyncExitStack() as stack:
            state: Mapping[str, Any] = {}
            if self._existing is not None:
                state = await stack.enter_async_context(self._existing.lifespan())
            await self.setup(server)
            yield state
