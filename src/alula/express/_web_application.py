"""The web application: a router that is an ASGI application, with a server below it."""

from __future__ import annotations

import socket
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Self, overload

from alula._app import App
from alula._user_code import name_of
from alula.errors import Unavailable
from alula.express._body_parsing import parse_size
from alula.express._chain import Out, run_steps
from alula.express._connection_limits import MAX_HEADERS, head_too_large
from alula.express._lifespan import Gate, Life
from alula.express._middleware.error_handler import error_handler
from alula.express._middleware.not_found import nothing_here
from alula.express._mounting import Existing, asgi_step
from alula.express._request import Request
from alula.express._response import Response
from alula.express._routing import Router
from alula.express._running import run_until_signal
from alula.express._server import Server, prepare_server, start_server
from alula.query import parse

__all__ = ["WebApplication"]

_answer_error = error_handler()

_PASSED = "alula.passed"
"""In a scope: the existing application whose middleware has passed it on to ours."""


class WebApplication(Router):
    """Middleware and routes as an ASGI application, without services: ``express()``.

    Args:
        existing: A Starlette or FastAPI application to extend.

    Attributes:
        settings: Settings by name. ``query parser`` is the function that reads query strings,
            ``body limit`` the bytes that a body may have where its parser says nothing else.
        early_paths: Paths whose requests do not wait while the application is set up.
    """

    def __init__(self, existing: Any = None) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self._debug = False
        self._servers: list[Server] = []
        self._gate: Gate | None = None
        self._is_draining = False
        self.early_paths: set[str] = set()
        self._life = Life(self._lived)
        self._state: dict[str, Any] = {}
        self._existing = None if existing is None else Existing(existing, self)
        if self._existing is not None:
            self.add(self._existing.step())

    # -- settings ------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> Self:
        """Set a setting.

        Raises:
            TypeError: A ``query parser`` that is no function of the query string.
            ValueError: A ``body limit`` that is no size.
        """
        if name == "body limit":
            parse_size(value)  # else the first request with a body would be told
        if name == "query parser" and not callable(value):
            raise TypeError(
                f"the setting 'query parser' is {value!r}; give a function that takes the query"
                " string and returns a dict, such as functools.partial(parse, depth=10)"
            )
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
            ValueError: A handler for something that is no route.
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
    def query_parser(self) -> Callable[[str], dict[str, Any]]:
        """The function that reads query strings: the setting ``query parser``, or Alula's own."""
        parser: Callable[[str], dict[str, Any]] = self.settings.get("query parser", parse)
        return parser

    def configure(self, function: Callable[[Self], Any]) -> Self:
        """Call a plugin with this application (see `App.configure`).

        Raises:
            TypeError: It is no plugin, or none for such an application.
        """
        App.configure(self, function)  # type: ignore[type-var]  # it only calls the plugin
        return self

    # -- requests ------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        if self._gate is not None and not await self._admits(scope, self._gate):
            await self._refuse(scope, receive, send)
        elif self._existing is not None and scope.get(_PASSED) is not self._existing.app:
            scope = {**scope, _PASSED: self._existing.app}
            if self._state:
                scope["state"] = {**scope.get("state", {}), **self._state}
            await self._existing.app(scope, receive, send)
        elif scope["type"] == "http":
            req = Request(self, scope, receive)
            res = Response(req)
            end = partial(self._end, req, res)
            if len(scope["headers"]) > MAX_HEADERS:
                await end(head_too_large(f"The request has over {MAX_HEADERS} headers"))
            else:
                await run_steps(self.steps_for(req), req, res, end)
                if not res.headers_sent:
                    await self._report_silence(req, res, end)
            await res.finish(scope, req.receive, send)
        else:
            await self._serve_other(scope, receive, send)

    async def handle(self, req: Request, res: Response, next: Out) -> None:
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

    async def _serve_other(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif self._existing is not None:
            await self._existing.routing(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise ValueError(f"{self!r} serves no ASGI connection of the type {scope['type']!r}")

    async def _end(self, req: Request, res: Response, error: Exception | None = None) -> None:
        """Stand behind the last step: for errors that none took, and where none answered."""
        if error is None:
            if res.headers_sent:
                return
            if self._existing is not None:
                res.delegate(self._existing.routing)
                return
            error = nothing_here(req, res)
            if error is None:
                return
        await _answer_error(error, req, res, None)

    async def _report_silence(self, req: Request, res: Response, end: Out) -> None:
        """Give the error middleware what is to be said where somebody forgot to answer."""
        silent = RuntimeError(
            f"nothing answered {req!r}: {name_of(req.ended_by)} neither sent a response (res.json,"
            " res.send, res.end) nor called `await next()`"
        )
        await run_steps(self._steps, req, res, end, silent)
        if not res.headers_sent:
            await end(silent)

    async def _admits(self, scope: Any, gate: Gate) -> bool:
        kind = scope["type"]
        if kind == "lifespan" or (kind == "http" and scope["path"] in self.early_paths):
            return True
        return await gate.admits()

    async def _refuse(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            req = Request(self, scope, receive)
            res = Response(req)
            await self._end(req, res, Unavailable("The server could not start"))
            await res.finish(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1013})

    # -- start and stop ------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether the set-up has finished."""
        return self._gate is None

    @property
    def phase(self) -> str:
        """What readiness tells: ``"starting"``, ``"ready"``, or ``"draining"``.

        It is draining since `announce_shutdown`.
        """
        if self._is_draining:
            return "draining"
        return "ready" if self.is_ready else "starting"

    def announce_shutdown(self) -> None:
        """Tell load balancers to send nothing more: readiness is a 503 until the next start.

        Requests are served as before. To stop a server without losing a request, call this, wait
        until the balancers have asked, and close the server then.
        """
        self._is_draining = True

    async def setup(self, server: Any = None) -> Self:  # noqa: ARG002  # the interface's name
        """Get ready; a plain web application has nothing to do."""
        return self

    async def teardown(self) -> Self:
        """Close the servers that `listen` has started, and clean up after their last requests.

        Raises:
            Exception: Whatever the cleaning up raises.
        """
        for server in tuple(self._servers):
            await server.close()
        return self

    async def listen(self, port: int, host: str = "127.0.0.1", **options: Any) -> Server:
        """Start a server, then set the application up; requests that come in between wait.

        Args:
            port: TCP port, 0 for any that is free.
            host: Address to listen on; ``"0.0.0.0"`` for every network of this machine.
            options: Further options of ``uvicorn.Config``, such as ``ssl_certfile``.

        Raises:
            OSError: The port can not be had.
            Exception: Whatever ``setup`` raises; the server is closed then.
        """
        return await self._listen(partial(start_server, self, port, host, **options))

    async def serve(
        self, sock: socket.socket, *, early: bool = False, linger: float = 0, **options: Any
    ) -> Server:
        """Set the application up, then start a server on a socket that listens already.

        Several processes can share a socket; `alula serve` has them do so. What the system accepts
        waits in the socket until one of them is ready.

        Args:
            sock: The socket.
            early: Whether to start the server first, as `listen` does, so that probes get an
                answer while the application is set up.
            linger: For how many seconds, once the server closes, requests are still answered that
                arrive on connections which are open.
            options: As in `listen`.

        Raises:
            Exception: Whatever ``setup`` raises; the socket is closed then where ``early`` is set.
        """
        server = prepare_server(self, sock, linger=linger, **options)
        if early:
            return await self._listen(server.start)
        server.on_end(self._life.end)
        try:
            await self._life.begin(server)
            await server.start()
        except BaseException:
            await self._life.end()
            raise
        self._servers.append(server)
        return server

    async def _listen(self, start: Callable[[], Coroutine[Any, Any, Server]]) -> Server:
        gate = self._gate = Gate()
        try:
            server = await start()
            server.on_end(self._life.end)
            try:
                await self._life.begin(server)
            except BaseException:
                gate.open(admits=self._is_served())
                await server.close()
                raise
            self._servers.append(server)
            return server
        finally:
            gate.open(admits=self._is_served())
            if self._gate is gate:
                self._gate = None

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
    async def _lived(self, server: Any) -> AsyncIterator[None]:
        """Be set up; with the lifespan of the existing application around that."""
        self._is_draining = False
        self._check_transport()
        async with AsyncExitStack() as stack:
            if self._existing is not None:
                self._state = await stack.enter_async_context(self._existing.lifespan())
            await self.setup(server)
            stack.push_async_callback(self._tear_down)
            yield

    async def _tear_down(self) -> None:
        """Undo what `setup` has done."""

    def _check_transport(self) -> None:
        """Refuse to start where services cannot be reached; there are none here."""

    def _is_served(self) -> bool:
        self._servers = [server for server in self._servers if not server.is_closed()]
        return bool(self._servers)

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        stage = "startup"
        await receive()
        try:
            async with self._lived(None):
                if self._state and "state" in scope:
                    scope["state"].update(self._state)
                await send({"type": "lifespan.startup.complete"})
                stage = "shutdown"
                await receive()
        except Exception:
            message = traceback.format_exc()
            await send({"type": f"lifespan.{stage}.failed", "message": message})
            raise
        await send({"type": "lifespan.shutdown.complete"})
