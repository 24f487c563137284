"""The middleware chain: one step after the other, errors to the error steps behind them.

As in Express: an exception, or ``await next(error)``, skips to the next error middleware that was
registered after the one where it came up. Rules held here:

- ``await next()`` itself never raises, so what a middleware does after it (a duration, a header)
  is done for failed requests too;
- a step that calls ``next()`` and does not wait for it, or calls it twice, is an error that names
  the step; one that neither responds nor goes on is noted, for the message that names it later;
- a plain function that ends with ``return next()`` costs a call and no coroutine;
- a function that always goes on (`goes_on`) is called without ``next``.
"""

from __future__ import annotations

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from alula._user_code import describe_frames, name_of
from alula.errors import GeneralError
from alula.express._request import Request
from alula.express._response import Response

__all__ = [
    "ErrorMiddleware",
    "Handler",
    "Middleware",
    "Next",
    "NextFunction",
    "Phase",
    "Step",
    "Steps",
    "always",
    "direct_of",
    "goes_on",
    "ignores_body",
    "in_phase",
    "never",
    "run_steps",
    "singleton",
    "singleton_name",
]


class NextFunction(Protocol):
    """What middleware calls to go on: ``next()``, or ``next(error)`` to the error middleware."""

    def __call__(self, error: Exception | None = None, /) -> Awaitable[None]:
        """Return what has to be awaited, or returned by a plain function."""
        ...


Middleware: TypeAlias = Callable[[Request, Response, NextFunction], Awaitable[None] | None]
"""``async def middleware(req, res, next)``, or a plain function that ends with ``return next()``"""

ErrorMiddleware: TypeAlias = Callable[
    [Exception, Request, Response, NextFunction], Awaitable[None] | None
]
"""As `Middleware`, for errors: ``async def handler(error, req, res, next)``"""

Handler: TypeAlias = (
    Callable[[Request, Response], object]
    | Callable[[Request, Response, NextFunction], object]
    | object
)
"""What a route takes: a function, or a list, a router or an ASGI application. By the first two,
type checkers know the parameters of a lambda."""

Direct: TypeAlias = Callable[[Request, Response], Awaitable[None] | None]
"""Middleware after which a request always goes on, so it needs no ``next``."""

M = TypeVar("M", bound=Callable[..., object])


def always(_: object) -> bool:
    """Return True: the `Step.may_read_body` of a step that may read every body."""
    return True


def never(_: object) -> bool:
    """Return False: the `Step.may_read_body` of a step that never reads a body."""
    return False


@dataclass(frozen=True, slots=True)  # Python reads slots faster than the items of a named tuple
class Step:
    """One registered middleware.

    Attributes:
        function: ``(req, res, next)``, or ``(error, req, res, next)`` where it takes errors.
        takes_errors: Which of both it is.
        needs_body: Whether it has nothing to do for a request without a body.
        may_read_body: Tells whether the step may read the body of a request. If no step may, the
            body is not read.
        direct: ``(req, res)``, called instead of ``function`` where a request always goes on
            (see `goes_on`); None for most.
        skips: Tells whether the step has nothing to do for a request, such as a route of another
            path, so that no ``next`` is made for it; None if the step always runs.
    """

    function: Callable[..., Any]
    takes_errors: bool = False
    needs_body: bool = False
    may_read_body: Callable[[Request], bool] = always
    direct: Direct | None = None
    skips: Callable[[Request], bool] | None = None


class Phase(enum.IntEnum):
    """When a step runs in an application of `api`, wherever it was registered."""

    FIRST = 1
    """What never reads a body, such as logs and CORS."""
    PARSER = 2
    CREDENTIALS = 3
    MIDDLEWARE = 4
    """Other middleware, and routes."""
    SERVICES = 5
    FALLBACK = 6
    """What responds to every path that leads to nothing else, and files."""
    NOT_FOUND = 7
    ERROR_MIDDLEWARE = 8
    ERROR_HANDLER = 9


class Steps:
    """The steps of a router.

    Attributes:
        registered: All steps, in the order in which they run. Requests that run keep the tuple
            they began with, when a step is added.
        has_phases: Whether steps run in the order of their phases, not of their registration.
        replaceable: Phases whose steps go when a step is added to one of them.
    """

    def __init__(self) -> None:
        self.registered: tuple[Step, ...] = ()
        self.has_phases = False
        self.replaceable: set[Phase] = set()
        self._phases: list[Phase] = []  # of each step
        # For each step behind the parsers: may it read the body of this request?
        self._body_readers: list[Callable[[Request], bool]] = []
        self._has_parsers = False

    def add(self, step: Step, phase: Phase) -> None:
        """Add a step behind all others, or behind those of its phase where phases count.

        There, the last parser of a media type takes its bodies, so that it replaces the others.
        """
        if phase in self.replaceable:
            self.replaceable.remove(phase)
            self._drop(phase)
        at = len(self.registered)
        if self.has_phases:
            at = (bisect_left if phase is Phase.PARSER else bisect_right)(self._phases, phase)
        self._insert(at, step, phase)

    def _insert(self, at: int, step: Step, phase: Phase) -> None:
        self._phases.insert(at, phase)
        self._set((*self.registered[:at], step, *self.registered[at:]))

    def _drop(self, phase: Phase) -> None:
        begin, end = bisect_left(self._phases, phase), bisect_right(self._phases, phase)
        del self._phases[begin:end]
        self._set((*self.registered[:begin], *self.registered[end:]))

    def _set(self, steps: tuple[Step, ...]) -> None:
        self.registered = steps
        first = next((at for at, step in enumerate(steps) if step.needs_body), len(steps))
        self._has_parsers = first < len(steps)
        self._body_readers = [
            step.may_read_body
            for step in steps[first:]
            if not (step.needs_body or step.takes_errors or step.may_read_body is never)
        ]

    def prepend(self, first: Iterable[Step]) -> None:
        """Add steps before all others, in the given order.

        One with a name that is there already (`singleton`) is left out. What follows it here comes
        behind the one that is there.
        """
        at = 0
        for step in first:
            name = singleton_name(step.function)
            names = [name and singleton_name(other.function) for other in self.registered]
            if name is None or name not in names:
                self._insert(at, step, self._phases[at - 1] if at else Phase.FIRST)
                at += 1
            else:
                at = names.index(name) + 1

    def for_request(self, req: Request) -> Sequence[Step]:
        """Return the steps for a request with a body, without parsers if nothing needs the body.

        That is so if no step behind the parsers may read it: the response is a 404 or a 405 then,
        and a large body must not cost the server anything.
        """
        if not self._has_parsers:
            return self.registered
        try:
            if any(may_read_body(req) for may_read_body in self._body_readers):
                return self.registered
        except Exception:  # noqa: BLE001  # the step raises it again, where error middleware sees it
            return self.registered
        return [step for step in self.registered if not step.needs_body]


def ignores_body(middleware: M) -> M:
    """Mark middleware that never reads the body of a request."""
    middleware.ignores_body = True  # type: ignore[attr-defined]  # a mark on the user's function
    return middleware


def goes_on(function: Direct) -> Middleware:
    """Make middleware of a function ``(req, res)`` that neither responds nor reads the body.

    The request goes on after it, unless it raises. So the chain calls the function itself, without
    a ``next`` to make, to call and to check.
    """
    return _GoesOn(function)


class _GoesOn:
    # A class, so that `functools.wraps` does not copy the mark to middleware that wraps this one.
    # A table of marks would keep what the function knows for ever, such as its application.

    def __init__(self, function: Direct) -> None:
        self.function = function
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(function, name))
        self.ignores_body = True

    def __call__(self, req: Request, res: Response, next: NextFunction) -> Awaitable[None]:
        waiting = self.function(req, res)
        return next() if waiting is None else self._go_on_later(waiting, next)

    async def _go_on_later(self, waiting: Awaitable[None], next: NextFunction) -> None:
        await waiting
        await next()


def direct_of(middleware: Any) -> Direct | None:
    """Return the function of middleware that `goes_on` has made, None for other middleware."""
    return middleware.function if isinstance(middleware, _GoesOn) else None


def in_phase(phase: Phase, middleware: M) -> M:
    """Note when middleware runs in an application of `api`, and return it."""
    middleware.phase = phase  # type: ignore[attr-defined]  # a mark on a function of ours
    return middleware


# Marks are not attributes: `functools.wraps` would copy them to middleware that wraps this one.
_SINGLETONS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def singleton(name: str, middleware: M) -> M:
    """Mark middleware that an application needs once only, and return it.

    Args:
        name: The same for all middleware that does this job.
        middleware: A function.
    """
    _SINGLETONS[middleware] = name
    return middleware


def singleton_name(middleware: Any) -> str | None:
    """Return the name that `singleton` noted, None for other middleware."""
    try:
        return _SINGLETONS.get(middleware)
    except TypeError:  # it has slots and no weak references, so it was never marked
        return None


class Next:
    """What a step calls to go on: ``next()``, or ``next(error)`` to the next error step.

    Attributes:
        error: What it was called with.
        was_called: Whether it was called.
        was_awaited: Whether it was awaited; the following steps ran then.
    """

    __slots__ = ("_at", "_chain", "error", "was_awaited", "was_called")

    def __init__(
        self, chain: tuple[Sequence[Step], Request, Response, NextFunction], at: int
    ) -> None:
        self._chain = chain
        self._at = at
        self.was_called = self.was_awaited = False
        self.error: Exception | None = None

    def __call__(self, error: object = None) -> Self:
        """Choose where to go on; the result has to be awaited, or returned.

        Raises:
            RuntimeError: It was called before.
            TypeError: ``error`` is neither an exception nor a text.
        """
        if self.was_called:
            raise RuntimeError(f"{self._owner()} called next() twice; what follows has run already")
        self.was_called = True
        if error is not None:
            if not isinstance(error, Exception | str):  # such as the request, as elsewhere
                raise TypeError(
                    f"{self._owner()} called next() with a {type(error).__name__}; it takes"
                    " nothing, or the exception that error middleware gets"
                )
            self.error = GeneralError(error) if isinstance(error, str) else error
        return self

    def __await__(self) -> Generator[Any, None, None]:
        if self.was_awaited:
            raise RuntimeError(f"{self._owner()} awaited one next() twice, or after it had ended")
        self.was_awaited = True
        return run_steps(*self._chain, self.error, self._at).__await__()

    def _owner(self) -> str:
        return name_of(self._chain[0][self._at - 1].function)


async def run_steps(  # one loop: a step costs no coroutine of its own
    steps: Sequence[Step],
    req: Request,
    res: Response,
    after_last: NextFunction,
    error: Exception | None = None,
    at: int = 0,
) -> None:
    """Run a request through the steps, and on to ``after_last`` if none of them ends it.

    Args:
        steps: In the order of their registration.
        req: The request.
        res: The response.
        after_last: Gets the error that no step took, or nothing if every step went on.
        error: The error that is under way; only error steps run then.
        at: The first step to look at.

    Raises:
        Exception: What ``after_last`` raises.
    """
    chain = steps, req, res, after_last
    for position in range(at, len(steps)):
        step = steps[position]
        if (
            step.takes_errors is (error is None)
            or (step.needs_body and not req.has_body)
            or (step.skips is not None and step.skips(req))
        ):
            continue
        function = step.function
        try:
            if step.direct is not None:
                if (waiting := step.direct(req, res)) is not None:
                    await waiting
                continue
            following = Next(chain, position + 1)
            if error is None:
                result = function(req, res, following)
            else:
                result = function(error, req, res, following)
            while result is not following and hasattr(result, "__await__"):
                result = await result
        except Exception as raised:  # noqa: BLE001  # every error goes on to the error steps
            error = raised
            continue
        # The traceback of an error refers to this frame. Without a reference back, all of the
        # request is freed at once, not by the garbage collector (a 404: -13 % instructions).
        error = None
        if following.was_awaited:
            return
        if not following.was_called:
            if req.ended_by is None and not res.headers_sent:
                req.ended_by = function
            return
        error = following.error
        if result is not following:
            following.was_awaited = True  # a task that awaits it later finds it closed
            error = RuntimeError(
                f"{name_of(function)} called next() without waiting for it; write `await next()`"
                " (or `return next()` in a plain function)"
            )
    await after_last(error)
    error = None  # as above


describe_frames(
    run_steps,
    lambda names: f"middleware {name_of(names['function'])} ({names['req'].method})",
)
