"""The web application: a router that is an ASGI application, with a server below it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from alula.errors import FrameworkError, NotFound, Unavailable
from alula.express.middleware.error_pages import error_handler
from alula.express.mounting import existing_step, lifespan_of
from alula.express.request import Request
from alula.express.response import Response
from alula.express.routing import Router
from alula.express.server import Server, start_server
from alula.query import parse

__all__ = ["WebApplication"]

MAX_HEADERS = 500
"""A request with more header lines is refused."""

_log = logging.getLogger("alula.express")


class WebApplication(Router):
    """Middleware and routes as an ASGI application, without services: ``express()``.

    Args:
        existing: A Starlette or FastAPI application that goes on answering its own routes.

    Attributes:
        settings: Settings by name. ``query parser`` is the function that reads query strings.
        debug: Whether clients see the messages of unexpected errors.
    """

    def __init__(self, existing: Any = None) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {}
        self.debug = False
        self.query_parser: Callable[[str], dict[str, Any]] = parse
        self._existing = existing
        self._gate: asyncio.Future[bool] | None = None
        self._last_resort = error_handler()
        if existing is not None:
            self.add(existing_step(existing))

    # -- settings ------------------------------------------------------------------------------

    def set(self, name: str, value: Any) -> Any:
        """Set a setting; ``query parser`` takes a function of the query string."""
        self.settings[name] = value
        if name == "query parser":
            self.query_parser = value
        return self

    def get(self, path: str, *handlers: Any) -> Any:
        """Register a route for GET; with one name that has no slash, read a setting.

        Raises:
            TypeError: A route without a handler, or a handler for something that is no route.
        """
        if not handlers and not path.startswith("/"):
            return self.settings.get(path)
        if handlers and not path.startswith("/") and path != "*":
            raise TypeError(
                f"get({path!r}, ...) is neither a route nor a setting: a route starts with a slash"
                f" ({'/' + path!r}), and settings are read by app.settings.get({path!r})"
            )
        return super().get(path, *handlers)

    # -- ASGI ----------------------------------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "http":
            if self._gate is not None:
                await self._gate
            req = Request(self, scope, receive)
            res = Response(req)
            req.leave = _Final(self, req, res)
            if len(scope["headers"]) > MAX_HEADERS:
                await req.leave(_too_many_headers())
            else:
                await self._run(req, res)
            if not res.headers_sent:
                await req.leave(_unanswered(req))
            await res.finish(scope, req.receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif self._existing is not None:
            await self._existing(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def handle(self, req: Request, res: Response, next: Callable[..., Any]) -> None:
        """Run as a sub-application mounted in another: with the own settings."""
        outer, req.app = req.app, self
        try:
            await super().handle(req, res, next)
        finally:
            req.app = outer

    # -- start and stop ------------------------------------------------------------------------

    async def setup(self, server: Any = None) -> Any:  # noqa: ARG002  # the interface's name
        """Get ready; a plain web application has nothing to do."""
        return self

    async def teardown(self) -> Any:
        """Clean up; a plain web application has nothing to do."""
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
        gate = self._gate = asyncio.get_running_loop().create_future()
        stack = AsyncExitStack()
        try:
            server = await start_server(self, port, host, **options)
            try:
                await stack.enter_async_context(lifespan_of(self._existing))
                await self.setup(server)
            except BaseException:
                gate.set_exception(Unavailable("The server could not start"))
                await server.close()
                raise
        finally:
            self._gate = None
            if not gate.done():
                gate.set_result(True)
            gate.exception()
        stack.push_async_callback(self.teardown)
        server.on_end(stack.aclose)
        return server

    def run(self, port: int = 3030, host: str = "127.0.0.1", **options: Any) -> None:
        """Listen until SIGINT or SIGTERM, for scripts: ``app.run(3030)``."""

        async def serve() -> None:
            server = await self.listen(port, host, **options)
            loop = asyncio.get_running_loop()
            for name in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(name, server.close)
            print(f"listening on {server.url}", flush=True)  # noqa: T201  # whoever runs a script looks for this
            await server.wait_closed()

        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve())

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        stage = "startup"
        try:
            async with AsyncExitStack() as stack:
                await receive()
                state = await stack.enter_async_context(lifespan_of(self._existing))
                if state and "state" in scope:
                    scope["state"].update(state)
                await self.setup()
                stack.push_async_callback(self.teardown)
                await send({"type": "lifespan.startup.complete"})
                stage = "shutdown"
                await receive()
        except Exception as error:
            await send({"type": f"lifespan.{stage}.failed", "message": repr(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})


class _Final:
    """What stands behind the last step: 404 where none answered, errors that none took."""

    __slots__ = ("_app", "_req", "_res")

    def __init__(self, app: WebApplication, req: Request, res: Response) -> None:
        self._app, self._req, self._res = app, req, res

    async def __call__(self, error: Exception | None = None) -> None:
        req, res = self._req, self._res
        if res.headers_sent:
            if error is not None:
                _log.error("%s %s failed after its answer", req.method, req.path, exc_info=error)
            return
        if error is None:
            error = NotFound("Page not found", {"url": req.url})
        await self._app._last_resort(error, req, res, self)  # noqa: SLF001  # its other half


def _unanswered(req: Request) -> Exception:
    return RuntimeError(
        f"nothing answered {req.method} {req.original_url}: some middleware neither sent a"
        " response (res.json, res.send, res.end) nor called `await next()`"
    )


def _too_many_headers() -> FrameworkError:
    return FrameworkError(
        "Too many request headers",
        name="RequestHeaderFieldsTooLarge",
        code=431,
        class_name="request-header-fields-too-large",
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415  # optional: not on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop
