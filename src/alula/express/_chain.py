"""The middleware chain: one step after the other, errors to the error steps behind them.

As in Express: an exception, or ``await next(error)``, skips to the next error middleware that was
registered after the one where it came up. Rules held here:

- ``await next()`` itself never raises, so what a middleware does after it (a duration, a header)
  is done for failed requests too;
- a step that calls ``next()`` and does not wait for it, or calls it twice, is an error that names
  the step; one that neither responds nor goes on is noted, for the message that names it later;
- a plain function that ends with ``return next()`` costs a call and no coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from alula._user_code import describe_frames, name_of
from alula.errors import GeneralError
from alula.express._request import Request
from alula.express._response import Response

__all__ = [
    "GO_ON",
    "Chain",
    "ErrorMiddleware",
    "Handler",
    "Middleware",
    "Next",
    "NextFunction",
    "RespondAtOnce",
    "Step",
    "Steps",
    "always",
    "ignores_body",
    "never",
    "responding_at_once",
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

RespondAtOnce: TypeAlias = Callable[[Exception, Request, Response], bool]
"""Responds to an error if that takes no waiting, and tells whether it has."""

M = TypeVar("M", bound=Callable[..., object])

GO_ON: Final = object()
"""What an endpoint's awaitable returns if the following steps are to respond after all."""


def always(_: object) -> bool:
    """Return True: the `Step.may_read_body` of a step that may read every body."""
    return True


def never(_: object) -> bool:
    """Return False: the `Step.may_read_body` of a step that never reads a body."""
    return False


class Step(NamedTuple):
    """One registered middleware.

    Attributes:
        function: ``(req, res, next)``, or ``(error, req, res, next)`` where it takes errors.
        takes_errors: Which of both it is.
        needs_body: Whether it has nothing to do for a request without a body.
        is_endpoint: Whether it is ``(req, res)`` instead, without a ``next``. It returns what has
            to be awaited for the response, or None if it leaves the request to the following steps.
        may_read_body: Tells whether the step may read the body of a request. If no step may, the
            body is not read.
    """

    function: Callable[..., Any]
    takes_errors: bool = False
    needs_body: bool = False
    is_endpoint: bool = False
    may_read_body: Callable[[Request], bool] = always


class Chain(NamedTuple):
    """Steps in the order of their registration, and what is known of the first ones.

    Attributes:
        steps: All of them.
        endpoints: The functions of the first steps, as far as these are endpoints. They need no
            look at an error, and no ``next``: most requests end in one of them.
        respond_at_once: That of the step that gets their errors (see `responding_at_once`), if it
            has one.
    """

    steps: Sequence[Step]
    endpoints: Sequence[Callable[[Request, Response], Any]]
    respond_at_once: RespondAtOnce | None

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Self:
        """Return the chain of some steps, which must not change any more."""
        first = [*takewhile(lambda step: step.is_endpoint, steps)]
        takes_error = next((step for step in steps[len(first) :] if step.takes_errors), None)
        at_once = None
        if takes_error is not None:
            with suppress(TypeError):  # without weak references, it was never marked
                at_once = _RESPONDERS.get(takes_error.function)
        return cls(steps, tuple(step.function for step in first), at_once)


class Steps:
    """The steps of a router, and the chains that requests run through.

    Attributes:
        registered: All steps, in the order of their registration.
        chains: For requests whose body may be read, and for all others; None until the first
            request behind a change.
    """

    # Python reads slots faster than what any other instance has here: each request needs them.
    __slots__ = ("_body_readers", "_bodyless", "_has_parsers", "chains", "registered")

    def __init__(self) -> None:
        self.registered: list[Step] = []
        self.chains: tuple[Chain, Chain] | None = None
        self._bodyless: list[Step] = []  # the same without the body parsers
        # Of the steps behind the parsers: whether one may read the body of a request.
        self._body_readers: list[Callable[[Request], bool]] = []
        self._has_parsers = False

    def add(self, step: Step) -> None:
        """Add a step behind all others."""
        self.chains = None
        self.registered.append(step)
        if step.needs_body:
            self._has_parsers = True
            return
        self._bodyless.append(step)
        if self._has_parsers and not step.takes_errors and step.may_read_body is not never:
            self._body_readers.append(step.may_read_body)

    def prepend(self, first: Iterable[Step]) -> None:
        """Add steps before all others, in the given order.

        One with a name that is there already (`singleton`) is left out. What follows it here comes
        behind the one that is there.
        """
        self.chains = None
        for steps in (self.registered, self._bodyless):
            at = 0
            for step in first:
                name = singleton_name(step.function)
                names = [name and singleton_name(other.function) for other in steps]
                if name is None or name not in names:
                    steps.insert(at, step)
                    at += 1
                else:
                    at = names.index(name) + 1

    def chain_for(self, req: Request) -> Chain:
        """Return the chain for a request, without the body parsers if nothing needs its body.

        That is so if it has no body, and if no step behind the parsers may read it: the response
        is a 404 or a 405 then, and a large body must not cost the server anything.
        """
        chains = self.chains
        if chains is None:
            chains = self.chains = Chain.of([*self.registered]), Chain.of([*self._bodyless])
        whole, bodyless = chains
        if req.has_body:
            try:
                for may_read_body in self._body_readers:
                    if may_read_body(req):
                        return whole
            except Exception:  # noqa: BLE001  # the step raises it again, where error middleware sees it
                return whole
        return bodyless


def responding_at_once(middleware: M, respond_at_once: RespondAtOnce | None) -> M:
    """Mark error middleware that responds to some errors without waiting, and return it.

    Args:
        middleware: It always responds, so nothing behind it gets the error.
        respond_at_once: Responds as the middleware does, and tells whether it has; it never raises.
            None if the middleware alone can do it.
    """
    if respond_at_once is not None:
        _RESPONDERS[middleware] = respond_at_once
    return middleware


# Not an attribute: what wraps error middleware may take over its attributes, and must run itself.
_RESPONDERS: WeakKeyDictionary[Any, RespondAtOnce] = WeakKeyDictionary()


def ignores_body(middleware: M) -> M:
    """Mark middleware that never reads the body of a request."""
    middleware.ignores_body = True  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]  # a mark on the user's function
    return middleware


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


async def run_steps(  # noqa: C901, PLR0912  # one loop: a step costs no coroutine of its own
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
    for position in range(at, len(steps)):
        function, takes_errors, needs_body, is_endpoint, _ = steps[position]
        if takes_errors is (error is None):
            continue
        if needs_body and not req.has_body:
            continue
        try:
            if is_endpoint:
                response = function(req, res)
                if response is None:
                    continue
                if await response is GO_ON:
                    continue
                return
            following = Next((steps, req, res, after_last), position + 1)
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
