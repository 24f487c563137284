"""Path patterns, and the `Router`: middleware and routes in the order of their registration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from alula.compose import Layer
from alula.express.chain import Run, Step, chain
from alula.express.classify import Kind, kind_of
from alula.express.mounting import asgi_step
from alula.express.request import Request
from alula.express.response import Response
from alula.routes import decode_segment

__all__ = ["Pattern", "Router"]


class Pattern:
    """A path with placeholders: ``/users/:id``, ``/files/*``. Case matters.

    Args:
        path: Segments; ``:name`` takes one, ``*`` at the end takes all that follow.
        whole: Whether it has to cover the whole path (a route), or a prefix of it (a mount).
    """

    def __init__(self, path: str, *, whole: bool) -> None:
        segments = [segment for segment in path.split("/") if segment]
        self._rest = bool(segments) and segments[-1] == "*"
        self._segments = segments[:-1] if self._rest else segments
        self._whole = whole and not self._rest

    def match(self, path: str) -> tuple[dict[str, str], str] | None:
        """Return the placeholders' values and the prefix that was covered, None for no match."""
        parts = path.split("/")[1:]
        while parts and not parts[-1]:
            parts.pop()
        wanted = self._segments
        if len(parts) < len(wanted) or (self._whole and len(parts) != len(wanted)):
            return None
        params: dict[str, str] = {}
        for segment, part in zip(wanted, parts, strict=False):
            if segment[0] == ":" and part:
                params[segment[1:]] = decode_segment(part)
            elif segment != part:
                return None
        if self._rest:
            params["*"] = "/".join(decode_segment(part) for part in parts[len(wanted) :])
        return params, "".join("/" + part for part in parts[: len(wanted)])


class Router:
    """Middleware and routes to mount as one: ``app.use("/v1", router)``."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._run: Run = self._leave

    def __repr__(self) -> str:
        return f"{type(self).__name__} with {len(self._steps)} steps"

    def use(self, *items: Any) -> Self:
        """Add middleware, lists of it, routers and ASGI applications, at a path if one comes first.

        Raises:
            TypeError: Something is none of these.
        """
        path, rest = (items[0], items[1:]) if items and isinstance(items[0], str) else ("/", items)
        for item in flatten(rest):
            self.add(step_of(item), path)
        return self

    def get(self, path: str, *handlers: Any) -> Any:
        """Answer GET (and HEAD) at a path: ``router.get("/users/:id", handler)``."""
        return self._route({"GET", "HEAD"}, path, handlers)

    def post(self, path: str, *handlers: Any) -> Self:
        """Answer POST at a path."""
        return self._route({"POST"}, path, handlers)

    def put(self, path: str, *handlers: Any) -> Self:
        """Answer PUT at a path."""
        return self._route({"PUT"}, path, handlers)

    def patch(self, path: str, *handlers: Any) -> Self:
        """Answer PATCH at a path."""
        return self._route({"PATCH"}, path, handlers)

    def delete(self, path: str, *handlers: Any) -> Self:
        """Answer DELETE at a path."""
        return self._route({"DELETE"}, path, handlers)

    def all(self, path: str, *handlers: Any) -> Self:
        """Answer every HTTP method at a path."""
        return self._route(None, path, handlers)

    def add(self, step: Step, path: str = "/") -> None:
        """Add one step, below a path where that is not the root."""
        if path.strip("/"):
            pattern = Pattern(path, whole=False)
            step = _error_below(step, pattern) if step.takes_errors else _below(step, pattern)
        self._steps.append(step)
        self._run = chain(self._steps, self._leave, self._leave_with)

    async def handle(self, req: Request, res: Response, next: Callable[..., Any]) -> None:
        """Run as middleware: through the own steps, and on to ``next`` where none answers."""
        outer, req.leave = req.leave, next
        try:
            await self._run(req, res)
        finally:
            req.leave = outer

    async def _leave(self, req: Request, _: Response) -> None:
        await req.leave()

    async def _leave_with(self, error: Exception, req: Request, _: Response) -> None:
        await req.leave(error)

    def _route(self, verbs: set[str] | None, path: str, handlers: tuple[Any, ...]) -> Self:
        if not path.startswith("/") and path != "*":
            raise ValueError(f"a route starts with a slash: {'/' + path!r}")
        steps = [step_of(handler) for handler in flatten(handlers)]
        if not steps:
            raise TypeError(f"the route {path!r} has no handler; give a function of (req, res)")
        inner = Router()
        for step in steps:
            inner.add(step)
        self.add(_placed(inner, Pattern(path, whole=True), verbs))
        return self


def flatten(items: Iterable[Any]) -> list[Any]:
    """Return items with lists of them laid open."""
    flat: list[Any] = []
    for item in items:
        flat.extend(flatten(item) if isinstance(item, list | tuple) else [item])
    return flat


def step_of(item: Any) -> Step:
    """Return the step that runs a middleware, handler, router or ASGI application.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(item, Router):
        return Step(item.handle)
    kind = kind_of(item)
    if kind is Kind.SERVICE:
        raise TypeError(
            f"{item!r} is no middleware; a service is registered with its path on an application"
            ' made by express(App()): app.use("name", service)'
        )
    if kind is Kind.ASGI:
        return asgi_step(item)
    if kind is Kind.HANDLER:
        return Step(_without_next(item))
    return Step(item, takes_errors=kind is Kind.ERROR_MIDDLEWARE)


def _below(step: Step, pattern: Pattern) -> Step:
    """Return a step that runs below a path, and sees the request without that prefix."""
    inner = Router()
    inner.add(step)
    return _placed(inner, pattern, None, strip=True)


def _placed(
    inner: Router, pattern: Pattern, verbs: set[str] | None, *, strip: bool = False
) -> Step:
    """Return a step that runs a router where path and verb fit.

    What the router changes of the request (path, params) is undone whenever the steps around it
    run: when it goes on to the next, and when it is done.
    """

    async def run(req: Request, res: Response, next: Callable[..., Any]) -> None:
        found = pattern.match(req.path) if verbs is None or req.method in verbs else None
        if found is None:
            await next()
            return
        params, prefix = found
        outer = req.path, req.base_url, req.params
        inside = req.path, req.base_url, {**req.params, **params}
        if strip:
            inside = req.path[len(prefix) :] or "/", req.base_url + prefix, inside[2]

        async def leave(error: Exception | None = None) -> None:
            req.path, req.base_url, req.params = outer
            try:
                await next(error)
            finally:
                req.path, req.base_url, req.params = inside

        req.path, req.base_url, req.params = inside
        try:
            await inner.handle(req, res, leave)
        finally:
            req.path, req.base_url, req.params = outer

    return Step(run)


def _error_below(step: Step, pattern: Pattern) -> Step:
    """Return error middleware that takes the errors of requests below a path."""

    def run(error: Exception, req: Request, res: Response, next: Callable[..., Any]) -> Any:
        if pattern.match(req.path) is None:
            return next(error)
        return step.function(error, req, res, next)

    return Step(run, takes_errors=True)


def _without_next(handler: Layer) -> Layer:
    def run(req: Request, res: Response, _: Callable[..., Any]) -> Any:
        return handler(req, res)

    return run
