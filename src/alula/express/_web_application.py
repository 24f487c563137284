"""`WebApplication`: a router that is an ASGI application. It only wires the other modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from starlette.types import ASGIApp, Receive, Scope, Send

from alula._registry import Settings, call_plugin, read_setting
from alula.express._chain import Handler, NextFunction, Phase, run_steps
from alula.express._connection_limits import MAX_HEADERS, head_too_large
from alula.express._final_handler import final_handler, refuse_connection, report_silence
from alula.express._lifespan import run_asgi_lifespan
from alula.express._request import Request, is_normal, normalized
from alula.express._response import Response
from alula.express._routing import Router, asgi_step, flatten
from alula.express._serving import ServedApplication
from alula.express._settings import QueryParser, check_setting, query_parser

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from alula.express._existing_application import ExistingApplication

__all__ = ["WebApplication"]

T = TypeVar("T")


class WebApplication(ServedApplication, Router):
    """Middleware and routes as an ASGI application, without services: ``express()``.

    Args:
        existing: A Starlette or FastAPI application to extend.

    Attributes:
        debug: Whether clients see the messages of unexpected errors.
        settings: Settings by name. ``query parser`` is the function that reads query strings,
            ``body limit`` the size limit of bodies whose parser has none of its own.
    """

    def __init__(self, existing: Starlette | None = None) -> None:
        self.settings = Settings()
        self.debug = False
        self._add_web(existing)

    def _add_web(self, existing: Starlette | None) -> None:
        # Mounted in it, and those that it is mounted in: browsers send them the same cookies.
        self.neighbours: list[WebApplication] = []
        Router.__init__(self)
        self._existing: ExistingApplication | None = None
        if existing is None:
            ServedApplication.__init__(self)
        else:
            # Most applications do without Starlette's own, which takes 3 % of the start.
            from alula.express._existing_application import (  # noqa: PLC0415  # only if used
                ExistingApplication,
            )

            self._existing = ExistingApplication(existing, self)
            ServedApplication.__init__(self, self._existing.lifespan)
            self.add(self._existing.step(), phase=Phase.FIRST)

    # -- settings ------------------------------------------------------------------------------

    @overload
    def set(self, name: str, value: object) -> Self: ...
    @overload
    def set(self, name: type[T], value: T) -> Self: ...
    def set(self, name: Any, value: object) -> Self:
        """Set a setting, by its name or its class (see `App.set`).

        Raises:
            TypeError: ``query parser`` is not a function of the query string, or
                ``cookie secret`` not a text.
            ValueError: ``body limit`` is not a size, or ``cookie secret`` too short.
        """
        check_setting(name, value)
        self.settings[name] = value
        return self

    @overload
    def get(self, path: str, /) -> Any: ...
    @overload
    def get(self, path: str, /, *handlers: Handler) -> Self: ...
    def get(self, path: str, /, *handlers: Handler) -> Any:
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
        return read_setting(self.settings, path, debug=self.debug)

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

    def use(self, *items: Any) -> Self:
        """Register middleware; see `Router.use`. The endpoints of sub-applications come along."""
        super().use(*items)
        path = items[0] if items and isinstance(items[0], str) else ""
        for item in flatten(items):
            if isinstance(item, WebApplication):
                self.endpoints.mount(path, item.endpoints)
                self.neighbours.append(item)
                item.neighbours.append(self)
        return self

    def add_endpoint(
        self,
        prefix: str,
        app: ASGIApp,
        closing: Callable[[], object] | None = None,
        *,
        max_message: int | None = None,
    ) -> Self:
        """Serve an ASGI application below a path, before any middleware, websockets included.

        Only the middleware of an existing application that this one extends comes before it.

        Args:
            prefix: The path, which starts with a slash.
            app: Gets the requests and websockets of the path, and of all below.
            max_message: Bytes that a message of a websocket may have. The servers of `listen` and
                `serve` refuse larger ones, unless an existing application has websockets as well.
            closing: Called when a server of `listen` or `serve` begins to stop: end what is open
                for long.

        Raises:
            ValueError: The path does not start with a slash, or another endpoint has it.
        """
        if self._existing is not None:
            app = self._existing.behind_middleware(app)
        self.endpoints.add(prefix, app, closing)
        if max_message is not None and self._existing is None:
            largest = max(max_message, self.server_options.get("ws_max_size", 0))
            # Such an endpoint has heartbeats of its own.
            self.server_options |= {"ws_max_size": largest, "ws_ping_interval": None}
        return self

    # -- requests ------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if not is_normal(scope):
            scope = normalized(scope)
        slot, existing = self._server_slot, self._existing
        if slot.gate is not None and not await slot.admits(scope, self.early_paths):
            await refuse_connection(self, scope, receive, send)
        elif existing is not None and not existing.has_passed(scope):
            await existing(scope, receive, send)
        elif self.endpoints.is_used and (endpoint := self.endpoints.find(scope)) is not None:
            await endpoint(scope, receive, send)
        elif scope["type"] != "http":
            await self._serve_other(scope, receive, send)
        else:
            req = Request(self, scope, receive)
            res = Response(req)
            try:
                after_last = partial(final_handler, req, res, existing)
                # Here, and not in the server: any ASGI server may run this.
                if len(scope["headers"]) > MAX_HEADERS:
                    await after_last(head_too_large(f"The request has over {MAX_HEADERS} headers"))
                else:
                    steps = self._steps
                    chosen = steps.for_request(req) if req.has_body else steps.registered
                    await run_steps(chosen, req, res, after_last)
                if not res.headers_sent:
                    await report_silence(self._steps.registered, req, res, after_last)
                await res.finish(scope, req.receive, send)
            except BaseException as error:  # a cancellation, too
                res.ended(error)
                raise
            res.ended()

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI connection that is not a request."""
        if scope["type"] == "lifespan":
            await run_asgi_lifespan(self._lifespan, scope, receive, send, self.endpoints.close)
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
        outer = req.app, req.cancels_calls

        async def leave(error: Exception | None = None) -> None:
            if error is not None:  # the outer application, which logs it, has no such services
                _ = req.hides_id
            inner = req.app, req.cancels_calls
            req.app, req.cancels_calls = outer
            try:
                await next(error)
            finally:
                req.app, req.cancels_calls = inner

        req.app, req.cancels_calls = self, False
        try:
            await run_steps(self._steps.registered, req, res, leave)
        finally:
            req.app, req.cancels_calls = outer
