"""The `Router`: middleware and routes in the order of their registration."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from alula.express._body_parsing import BodyParser
from alula.express._chain import Out, Step, never, run_steps
from alula.express._classify import Kind, kind_of
from alula.express._mounting import asgi_step
from alula.express._pattern import Pattern
from alula.express._request import Request
from alula.express._response import Response

__all__ = ["Router", "flatten", "singleton", "step_of"]

M = TypeVar("M", bound=Callable[..., Any])


class Router:
    """Middleware and routes to mount as one: ``app.use("/v1", router)``."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._bodyless: list[Step] = []  # the same, but for those that only read bodies
        self._behind_parsers: list[Step] = []  # those that may look at a body that was read

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self._steps)} steps>"

    def use(self, *items: Any) -> Self:
        """Add middleware, lists of it, routers and ASGI applications, at a path if one comes first.

        Raises:
            TypeError: Something is none of these, or there is nothing at all.
            ValueError: The path is not understood.
        """
        path, rest = (items[0], items[1:]) if items and isinstance(items[0], str) else ("/", items)
        steps = [step_of(item) for item in flatten(rest)]
        if not steps:
            raise TypeError(
                "use() has nothing to use: give it middleware, or a path and middleware"
            )
        for step in steps:
            self.add(step, path)
        return self

    def get(self, path: str, *handlers: Any) -> Any:
        """Answer GET (and HEAD) at a path: ``router.get("/users/:id", handler)``.

        Raises:
            TypeError: A handler is missing, or is no function that fits.
            ValueError: The path is not understood.
        """
        return self._route({"GET", "HEAD"}, path, handlers)

    def post(self, path: str, *handlers: Any) -> Self:
        """Answer POST at a path (errors as in `get`)."""
        return self._route({"POST"}, path, handlers)

    def put(self, path: str, *handlers: Any) -> Self:
        """Answer PUT at a path (errors as in `get`)."""
        return self._route({"PUT"}, path, handlers)

    def patch(self, path: str, *handlers: Any) -> Self:
        """Answer PATCH at a path (errors as in `get`)."""
        return self._route({"PATCH"}, path, handlers)

    def delete(self, path: str, *handlers: Any) -> Self:
        """Answer DELETE at a path (errors as in `get`)."""
        return self._route({"DELETE"}, path, handlers)

    def all(self, path: str, *handlers: Any) -> Self:
        """Answer every HTTP method at a path (errors as in `get`)."""
        return self._route(None, path, handlers)

    def add(self, step: Step, path: str = "/") -> None:
        """Add one step, below a path where that is not the root."""
        if path.strip("/"):
            step = _Place([step], Pattern(path, whole=False), strip=True).step(
                step.takes_errors, ignores_body=step.concerns is never
            )
        self._steps.append(step)
        if not step.needs_body:
            self._bodyless.append(step)
            if not step.takes_errors and step.concerns is not never and self._reads_bodies():
                self._behind_parsers.append(step)

    def _reads_bodies(self) -> bool:
        return len(self._bodyless) < len(self._steps)

    def steps_for(self, req: Request) -> Sequence[Step]:
        """Return the steps for a request: without those that read its body where nobody wants it.

        That is where it comes without one, and where no step behind the parsers is concerned: it is
        answered with a 404 or a 405 then, and how much it would send does not matter.
        """
        if not req.has_body or not self._reads_bodies():
            return self._bodyless
        try:
            for step in self._behind_parsers:
                if step.concerns is None or step.concerns(req):
                    return self._steps
        except Exception:  # noqa: BLE001  # the step itself raises it, where errors are answered
            return self._steps
        return self._bodyless

    def begin_with(self, *middleware: Any) -> Self:
        """Have middleware run before all that is registered, in the order that is given.

        Middleware of which an application needs one only says so by a name (`singleton`). One
        that is there already stays where it is; those that follow here come behind it then.

        Raises:
            TypeError: Something is not middleware.
        """
        for steps in (self._steps, self._bodyless):
            at = 0
            for step in map(step_of, middleware):
                name = singleton_name(step.function)
                same = [
                    i
                    for i, each in enumerate(steps)
                    if name is not None and singleton_name(each.function) == name
                ]
                if not same:
                    steps.insert(at, step)
                at = (same or [at])[0] + 1
        return self

    def handle(self, req: Request, res: Response, next: Out) -> Awaitable[None]:
        """Run as middleware: through the own steps, and on to ``next`` where none answers."""
        return run_steps(self._steps, req, res, next)

    def _route(self, verbs: set[str] | None, path: str, handlers: tuple[Any, ...]) -> Self:
        if not isinstance(path, str) or not (path.startswith("/") or path == "*"):
            raise ValueError(f"{path!r} is no path of a route; it starts with a slash")
        steps = [step_of(handler) for handler in flatten(handlers)]
        if not steps:
            raise TypeError(
                f"the route {path!r} has no handler; give a function of (req, res), not as a"
                f" decorator: app.get({path!r}, handler)"
            )
        self.add(_Place(steps, Pattern(path, whole=True), verbs).step())
        return self


class _Place:
    """Steps that run where path and verb of a request fit.

    What is different for them (path, base_url, params) is undone whenever the steps around them
    run: when they go on to the next, and when they are done.

    Args:
        steps: What runs there.
        pattern: The path.
        verbs: HTTP methods, None for all.
        strip: Whether the steps see the path without the prefix that led to them.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        pattern: Pattern,
        verbs: set[str] | None = None,
        *,
        strip: bool = False,
    ) -> None:
        self._steps = steps
        self._pattern = pattern
        self._verbs = verbs
        self._strip = strip

    def step(self, takes_errors: bool = False, *, ignores_body: bool = False) -> Step:
        """Return all of it as one step."""
        function = self._enter_with if takes_errors else self._enter
        return Step(function, takes_errors, concerns=never if ignores_body else self._fits)

    def _fits(self, req: Request) -> bool:
        is_verb = self._verbs is None or req.method in self._verbs
        return is_verb and self._pattern.match(req.path) is not None

    def _enter(self, req: Request, res: Response, next: Out) -> Awaitable[None]:
        return self._enter_with(None, req, res, next)

    def _enter_with(
        self, error: Exception | None, req: Request, res: Response, next: Out
    ) -> Awaitable[None]:
        if self._verbs is None or req.method in self._verbs:
            found = self._pattern.match(req.path)
            if found is not None:
                return self._run(error, found, req, res, next)
        return next(error)

    async def _run(
        self,
        error: Exception | None,
        found: tuple[dict[str, str], str],
        req: Request,
        res: Response,
        next: Out,
    ) -> None:
        values, prefix = found
        outer = req.path, req.base_url, req.params
        path, base_url, params = req.path, req.base_url, {**req.params, **values}
        if self._strip:
            path, base_url = path[len(prefix) :] or "/", base_url + prefix

        async def leave(error: Exception | None = None) -> None:
            req.path, req.base_url, req.params = outer
            try:
                await next(error)
            finally:
                req.path, req.base_url, req.params = path, base_url, params

        req.path, req.base_url, req.params = path, base_url, params
        try:
            await run_steps(self._steps, req, res, leave, error)
        finally:
            req.path, req.base_url, req.params = outer


_SINGLETONS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def singleton(name: str, middleware: M) -> M:
    """Note that an application needs one of this middleware only; return it.

    Args:
        name: What all of its kind are called.
        middleware: A function.
    """
    _SINGLETONS[middleware] = name
    return middleware


def singleton_name(middleware: Any) -> str | None:
    """Return the name that `singleton` noted, None for other middleware."""
    try:
        return _SINGLETONS.get(middleware)
    except TypeError:  # nothing can be noted about it
        return None


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
    if isinstance(item, BodyParser):
        return Step(item.claim, needs_body=True, claims=True)
    concerns = never if getattr(item, "ignores_body", False) else None
    return Step(item, kind is Kind.ERROR_MIDDLEWARE, concerns=concerns)


def _without_next(handler: Callable[..., Any]) -> Callable[[Request, Response, Any], Any]:
    return functools.update_wrapper(lambda req, res, _: handler(req, res), handler)
