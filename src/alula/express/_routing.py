"""The `Router`: middleware and routes in the order of their registration.

Below it: path patterns, and how ``use`` tells middleware, ASGI applications and services apart.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from alula._routes import decode_segment
from alula._user_code import name_of, public_name_of, wrong_twin
from alula.errors import BadRequest
from alula.express._body_parsing import BodyParser, joined_parsers
from alula.express._chain import (
    Handler,
    NextFunction,
    Phase,
    Step,
    Steps,
    always,
    direct_of,
    never,
    run_steps,
    singleton_name,
)
from alula.express._request import Request
from alula.express._response import Response
from alula.types import STANDARD_METHODS, is_array

__all__ = [
    "REQUEST_STATE",
    "ItemType",
    "Pattern",
    "Router",
    "asgi_step",
    "flatten",
    "item_type_of",
    "phase_of",
    "step_of",
]


REQUEST_STATE: Final = "alula"
"""The name of the request in the ``state`` of a mounted ASGI application."""


class Router:
    """Middleware and routes to mount as one.

    Examples:
        >>> from alula.express import Router, express
        >>> router = Router().get("/hello", lambda req, res: res.json("hello"))
        >>> web = express().use("/v1", router)  # GET /v1/hello
    """

    def __init__(self) -> None:
        self._steps = Steps()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self._steps.registered)} steps>"

    def use(self, *items: Any) -> Self:
        """Add middleware, lists of it, routers and ASGI applications, at a path if one comes first.

        Raises:
            TypeError: Something is none of these, or there is nothing at all.
            ValueError: The path has a segment that is not valid.
        """
        path, rest = (items[0], items[1:]) if items and isinstance(items[0], str) else ("/", items)
        middleware = joined_parsers(flatten(rest))
        steps = [step_of(item) for item in middleware]
        if not steps:
            raise TypeError(
                "use() has nothing to use: give it middleware, or a path and middleware"
            )
        for item, step in zip(middleware, steps, strict=True):
            self.add(step, path, phase_of(item, path))
        return self

    def get(self, path: str, /, *handlers: Handler) -> Any:
        """Register a route for GET (and HEAD): ``router.get("/users/:id", handler)``.

        Raises:
            TypeError: A handler is missing, or does not take ``(req, res)``.
            ValueError: The path does not start with a slash, or has a segment that is not valid.
        """
        return self._route({"GET", "HEAD"}, path, handlers)

    def post(self, path: str, *handlers: Handler) -> Self:
        """Register a route for POST (errors as in `get`)."""
        return self._route({"POST"}, path, handlers)

    def put(self, path: str, *handlers: Handler) -> Self:
        """Register a route for PUT (errors as in `get`)."""
        return self._route({"PUT"}, path, handlers)

    def patch(self, path: str, *handlers: Handler) -> Self:
        """Register a route for PATCH (errors as in `get`)."""
        return self._route({"PATCH"}, path, handlers)

    def delete(self, path: str, *handlers: Handler) -> Self:
        """Register a route for DELETE (errors as in `get`)."""
        return self._route({"DELETE"}, path, handlers)

    def all(self, path: str, *handlers: Handler) -> Self:
        """Register a route for every HTTP method (errors as in `get`)."""
        return self._route(None, path, handlers)

    @property
    def steps(self) -> Steps:
        """All that is registered here."""
        return self._steps

    @property
    def middleware_functions(self) -> list[Callable[..., Any]]:
        """The functions of all that is registered, in the order in which they run."""
        return [step.function for step in self._steps.registered]

    def prepend_middleware(self, *middleware: Any) -> Self:
        """Run middleware before all that is registered, in the given order.

        Middleware that an application needs once only says so by a name (`singleton`). If it is
        there already, it stays where it is, and what follows here comes behind it.

        Raises:
            TypeError: Something is not middleware.
        """
        self._steps.prepend([step_of(each) for each in middleware])
        return self

    def has(self, name: str) -> bool:
        """Tell whether middleware is registered here that says its name (see `singleton`)."""
        return any(singleton_name(step.function) == name for step in self._steps.registered)

    def add(self, step: Step, path: str = "/", phase: Phase | None = None) -> None:
        """Add one step, below a path unless that is the root.

        Args:
            step: The step.
            path: The path.
            phase: When it runs in an application of `api`; None tells by the step.
        """
        if phase is None:
            phase = Phase.FIRST if step.may_read_body is never else Phase.MIDDLEWARE
        if path.strip("/"):
            mount = _Mount([step], Pattern(path, whole=False), strip=True)
            step = mount.step(step.takes_errors, ignores_body=step.may_read_body is never)
        self._steps.add(step, phase)

    def handle(self, req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        """Run as middleware: through all steps, and on to ``next`` if none of them responds."""
        return run_steps(self._steps.registered, req, res, next)

    def _route(self, verbs: set[str] | None, path: str, handlers: tuple[Any, ...]) -> Self:
        if not isinstance(path, str) or not (path.startswith("/") or path == "*"):
            raise ValueError(f"{path!r} is not the path of a route: it must start with a slash")
        functions = flatten(handlers)
        steps = [step_of(handler) for handler in functions]
        if not steps:
            raise TypeError(
                f"the route {path!r} has no handler; give a function of (req, res), not as a"
                f" decorator: app.get({path!r}, handler)"
            )
        # A route such as /:page or * would hide the services.
        begins_with_a_name = path.strip("/")[:1] not in {":", "*"}
        is_last = not begins_with_a_name and _always_responds(functions[-1])
        phase = Phase.FALLBACK if is_last else Phase.MIDDLEWARE
        self.add(_Mount(steps, Pattern(path, whole=True), verbs).step(), phase=phase)
        return self


class _Mount:
    """Steps that run if the path and the HTTP method of a request match.

    They see another path, base_url and params. That is undone whenever the steps around them run:
    when they go on to the next one, and when they are done.

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
        verbs, match, start = self._verbs, self._pattern.match, self._pattern.start

        def skips(req: Request) -> bool:
            path = req.path
            # A guard that is mounted at /api/admin must see //api//admin, too: files and services
            # of what is mounted at /api ignore these slashes.
            inner = path.lstrip("/")
            if not inner.startswith(start) and "%" not in path and "//" not in inner:
                return True  # nearly all requests, so this is not a call of its own
            return (verbs is not None and req.method not in verbs) or match(path) is None

        def matches(req: Request) -> bool:
            return not skips(req)

        function = self._enter if takes_errors else functools.partial(self._enter, None)
        may_read_body = never if ignores_body else matches
        return Step(function, takes_errors, may_read_body=may_read_body, skips=skips)

    def _enter(
        self, error: Exception | None, req: Request, res: Response, next: NextFunction
    ) -> Awaitable[None]:
        match = self._pattern.match(req.path)
        assert match is not None  # noqa: S101  # for type checkers; otherwise the step is skipped
        return self._run(error, match, req, res, next)

    async def _run(
        self,
        error: Exception | None,
        match: tuple[dict[str, str], str],
        req: Request,
        res: Response,
        next: NextFunction,
    ) -> None:
        values, prefix = match
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


_SEGMENT: Final = re.compile(r":[A-Za-z_]\w*|[^:*?(){}]+")
_MAX_ENCODED: Final = 12  # what one character may become: four bytes, three characters for each


class Pattern:
    """A path with placeholders: ``/users/:id``, ``/files/*``.

    Case matters. Slashes at its ends do not, and several in a row count as one.

    Args:
        path: Segments; ``:name`` takes one, ``*`` at the end takes all that follow.
        whole: Whether it has to match the whole path (a route), or a prefix of it (a mount).

    Attributes:
        start: What a plain path must start with, without slashes before it.

    Raises:
        ValueError: A segment is neither plain text nor one of these.
    """

    def __init__(self, path: str, *, whole: bool) -> None:
        segments = [segment for segment in path.split("/") if segment]
        self._rest = segments[-1:] == ["*"]
        self._segments = segments[:-1] if self._rest else segments
        self._whole = whole and not self._rest
        for segment in self._segments:
            if not _SEGMENT.fullmatch(segment):
                raise ValueError(
                    f"{segment!r} in the path {path!r} is not valid; a segment is text or a"
                    " placeholder such as :id, and the last one may be *"
                )
        plain = "/".join(self._segments)
        self.start = "" if ":" in plain else plain

    def match(self, path: str) -> tuple[dict[str, str], str] | None:
        """Return the placeholders' values and the prefix that was matched, None for no match.

        Args:
            path: As it was sent, percent-encoded; values and comparisons are decoded.
        """
        params: dict[str, str] = {}
        end, size = 0, len(path)
        # Nothing is split: any number of routes look at one path, which may have 64,000 segments.
        for segment in self._segments:
            begin = end
            while begin < size and path[begin] == "/":
                begin += 1
            if begin == size:
                return None
            end = path.find("/", begin)
            end = size if end < 0 else end
            part = path[begin:end]
            if segment[0] == ":":
                params[segment[1:]] = decode_segment(part)
            # What is too long is not decoded: that takes time for each route.
            elif len(part) > _MAX_ENCODED * len(segment) or segment != decode_segment(part):
                return None
        following = path[end + 1 :] if end else path.lstrip("/")
        if self._whole and following.strip("/"):
            return None
        if self._rest:
            parts = following.rstrip("/").split("/")
            params["*"] = "/".join(map(decode_segment, parts))
        return params, path[:end]


# -- what `use` takes ------------------------------------------------------------------------------


class ItemType(enum.Enum):
    """What an argument of ``use`` is."""

    MIDDLEWARE = "middleware"
    ERROR_MIDDLEWARE = "error middleware"
    HANDLER = "handler"
    ASGI = "ASGI application"
    SERVICE = "service"


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_TYPE_BY_COUNT: Final = {
    2: ItemType.HANDLER,
    3: ItemType.MIDDLEWARE,
    4: ItemType.ERROR_MIDDLEWARE,
}


def flatten(items: Iterable[Any]) -> list[Any]:
    """Return items with the items of lists and tuples in their place."""
    flat: list[Any] = []
    for item in items:
        flat.extend(flatten(item) if is_array(item) else [item])
    return flat


def step_of(item: Any) -> Step:
    """Return the step that runs a middleware, handler, router or ASGI application.

    Raises:
        TypeError: It is none of these.
    """
    if isinstance(item, Router):
        return Step(item.handle)
    item_type = item_type_of(item)
    if item_type is ItemType.SERVICE:
        raise TypeError(
            f"{item!r} is not middleware; a service is registered with its path on an application"
            ' made by express(App()): app.use("name", service)'
        )
    if item_type is ItemType.ASGI:
        return asgi_step(item)
    if item_type is ItemType.HANDLER:

        def handle(req: Request, res: Response, _: NextFunction) -> Any:
            return item(req, res)

        return Step(functools.update_wrapper(handle, item))
    if isinstance(item, BodyParser):
        return Step(item, needs_body=True)
    return Step(
        item,
        item_type is ItemType.ERROR_MIDDLEWARE,
        may_read_body=never if getattr(item, "ignores_body", False) else always,
        direct=direct_of(item),
    )


def phase_of(item: Any, path: str) -> Phase:
    """Return when middleware runs in an application of `api`.

    Args:
        item: What `step_of` takes.
        path: Where it is mounted.
    """
    if isinstance(item, BodyParser):
        return Phase.PARSER
    is_at_root = not path.strip("/")
    phase: Phase | None = getattr(item, "phase", None)
    if isinstance(phase, Phase):
        # Below a path, the next 404 or error handler still has something to do.
        return {
            Phase.NOT_FOUND: phase if is_at_root else Phase.FALLBACK,
            Phase.ERROR_HANDLER: phase if is_at_root else Phase.ERROR_MIDDLEWARE,
        }.get(phase, phase)
    if _always_responds(item):
        return Phase.FALLBACK if is_at_root else Phase.MIDDLEWARE
    if not isinstance(item, Router) and item_type_of(item) is ItemType.ERROR_MIDDLEWARE:
        return Phase.ERROR_MIDDLEWARE
    return Phase.FIRST if getattr(item, "ignores_body", False) else Phase.MIDDLEWARE


def _always_responds(item: Any) -> bool:
    """Tell whether nothing can follow: a handler of ``(req, res)``, or an ASGI application."""
    if isinstance(item, Router) and not callable(item):
        return False
    return item_type_of(item) in {ItemType.HANDLER, ItemType.ASGI}


# A slash or a backslash within a segment, and segments of dots. The application decodes its path,
# and may read /api/admin%2Fusers or /api/x/../admin/users as /api/admin/users: with these, requests
# would pass a guard in front of it, which is matched by whole segments.
_OTHER_READING: Final = re.compile(r"%2f|%5c|\\|/(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)


def asgi_step(app: ASGIApp) -> Step:
    """Return a step that hands requests to an ASGI application, which always responds.

    The application gets the path that the steps before it have matched, and the `Request` under
    `REQUEST_STATE` in the ``state`` of its scope. An ``HTTPException`` of Starlette becomes the
    response that it has there: `StaticFiles` raises one for a missing file.

    Raises:
        BadRequest: By the step, for a path that the application may read in another way.
    """
    # Late: it loads the requests of Starlette, forms and anyio, which few applications need.
    from starlette.middleware.exceptions import ExceptionMiddleware  # noqa: PLC0415  # as said above

    app = ExceptionMiddleware(app)

    def delegate(req: Request, res: Response, _: NextFunction) -> None:
        path = req.base_url + req.path
        if _OTHER_READING.search(path):
            raise BadRequest(
                "The path has an encoded slash, a backslash, or a segment of dots; send it without"
            )
        outside: str = req.scope.get("root_path", "").rstrip("/")
        changes = {
            # ASGI's paths are decoded, but for raw_path.
            "root_path": outside + unquote(req.base_url),
            "path": outside + unquote(path),
            "raw_path": (quote(outside) + path).encode(),
            "state": {**req.scope.get("state", {}), REQUEST_STATE: req},
        }

        async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, **changes}, receive, send)

        res.delegate(mounted)

    return Step(delegate)


def item_type_of(item: Any) -> ItemType:
    """Return what an argument of ``use`` is, by its signature.

    ``(scope, receive, send)`` is an ASGI application, ``(req, res)`` a handler, ``(req, res,
    next)`` middleware, ``(error, req, res, next)`` error middleware. An object is a service if it
    cannot be called, or has other arguments and the methods of a service.

    Raises:
        TypeError: It is none of these; a class, or options that should be keywords.
    """
    if isinstance(item, type):
        raise TypeError(f"{name_of(item)} is a class; use an instance: {item.__name__}()")
    if isinstance(item, Mapping):
        raise TypeError(
            f"{item!r} is not a service; options are keywords: use(path, service, methods=[...])"
        )
    if not callable(item):
        return ItemType.SERVICE
    try:
        signature = inspect.signature(item)
    except ValueError:  # some built-in functions have none
        raise TypeError(f"{name_of(item)} has no signature; wrap it in a function") from None
    parameters = signature.parameters.values()
    required = [p for p in parameters if p.default is p.empty]
    positional = [p for p in required if p.kind in _POSITIONAL]
    if positional and positional[0].name == "scope":
        return ItemType.ASGI
    if not any(p.kind is p.KEYWORD_ONLY for p in required):
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return ItemType.MIDDLEWARE
        if len(positional) in _TYPE_BY_COUNT:
            return _TYPE_BY_COUNT[len(positional)]
    if any(callable(getattr(item, name, None)) for name in STANDARD_METHODS):
        return ItemType.SERVICE
    if (twin := wrong_twin(item)) is not None:
        raise TypeError(twin)
    raise TypeError(_explain_misfit(item, signature))


def _explain_misfit(item: Any, signature: inspect.Signature) -> str:
    """Return what to write instead of ``use(item)``."""
    name, parameters = public_name_of(item), signature.parameters.values()
    short_name = name.rpartition(".")[2]
    # The functions that make middleware take options alone.
    if parameters and all(p.default is not p.empty for p in parameters):
        return f"write app.use({short_name}()), with brackets: {name} is called to get middleware"
    if len(parameters) == 1 and name.startswith("alula.") and "<locals>" in name_of(item):
        return f"write app.configure({short_name}()): {name} is a plugin, not middleware"
    return (
        f"{name_of(item)}{signature} fits nothing that can be used: middleware takes (req, res,"
        " next), error middleware (error, req, res, next), a handler (req, res); a plugin takes"
        " (app), and goes to app.configure(plugin)"
    )
