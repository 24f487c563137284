"""The middleware chain: one step after the other, errors to the error steps behind them.

As in Express: an exception, or ``await next(error)``, skips to the next error middleware that was
registered after the one where it came up. Rules held here:

- ``await next()`` itself never raises, so what a middleware does after it (a duration, a header)
  is done for failed requests too;
- a step that calls ``next()`` and does not wait for it, or calls it twice, is an error that names
  the step; one that neither answers nor goes on is noted, for the message that names it later;
- a plain function that ends with ``return next()`` costs a call and no coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

from alula._user_code import describe_frames, name_of
from alula.errors import GeneralError

__all__ = ["GO_ON", "Next", "Out", "Step", "ignores_body", "never", "run_steps"]

Out: TypeAlias = Callable[..., Awaitable[None]]
"""Where a chain goes on behind its last step: ``out()``, or ``out(error)``."""


GO_ON: Final = object()
"""What a claim that was awaited returns where the following steps are to answer after all."""


class Step(NamedTuple):
    """One registered middleware.

    Attributes:
        function: ``(req, res, next)``, or ``(error, req, res, next)`` where it takes errors.
        takes_errors: Which of both it is.
        needs_body: Whether it has nothing to do for a request without a body.
        claims: Whether it is ``(req, res)`` instead, without a ``next``: it returns what has to be
            awaited for the answer, or None for a request that it leaves to the following steps.
        concerns: Tells of a request whether the step may look at its body; None for always. Where
            no step may, the body is not read.
    """

    function: Callable[..., Any]
    takes_errors: bool = False
    needs_body: bool = False
    claims: bool = False
    concerns: Callable[[Any], bool] | None = None


def ignores_body(middleware: Any) -> Any:
    """Say of a middleware that it never looks at the body of a request."""
    middleware.ignores_body = True
    return middleware


def never(_: object) -> bool:
    """Be what `Step.concerns` is for a step that never looks at a body."""
    return False


class Next:
    """What a step calls to go on: ``next()``, or ``next(error)`` to the next error step.

    Attributes:
        error: What it was called with.
        called: Whether it was called.
        went_on: Whether somebody waited for it; what is further in ran then.
    """

    __slots__ = ("_at", "_chain", "called", "error", "went_on")

    def __init__(self, chain: tuple[Sequence[Step], Any, Any, Out], at: int) -> None:
        self._chain = chain
        self._at = at
        self.called = self.went_on = False
        self.error: Exception | None = None

    def __call__(self, error: object = None) -> Self:
        """Say where to go on; what it returns has to be awaited, or returned.

        Raises:
            RuntimeError: It was called before.
            TypeError: ``error`` is neither an exception nor a text.
        """
        if self.called:
            raise RuntimeError(f"{self._owner()} called next() twice; what follows has run already")
        self.called = True
        if error is not None:
            if not isinstance(error, Exception | str):  # such as the request, as elsewhere
                raise TypeError(
                    f"{self._owner()} called next() with a {type(error).__name__}; it takes"
                    " nothing, or the exception that error middleware gets"
                )
            self.error = GeneralError(error) if isinstance(error, str) else error
        return self

    def __await__(self) -> Generator[Any, None, None]:
        if self.went_on:
            raise RuntimeError(f"{self._owner()} awaited one next() twice, or after it had ended")
        self.went_on = True
        return run_steps(*self._chain, self.error, self._at).__await__()

    def _owner(self) -> str:
        return name_of(self._chain[0][self._at - 1].function)


async def run_steps(
    steps: Sequence[Step], req: Any, res: Any, out: Out, error: Exception | None = None, at: int = 0
) -> None:
    """Run a request through the steps, and on to ``out`` where none of them ends it.

    Args:
        steps: In the order of their registration.
        req: The request.
        res: The response.
        out: Gets the error that no step took, or nothing where every step went on.
        error: The error that is under way; only error steps run then.
        at: The first step to look at.

    Raises:
        Exception: Whatever ``out`` raises.
    """
    while at < len(steps):
        function, takes_errors, needs_body, claims, _ = steps[at]
        at += 1
        if takes_errors is (error is None) or (needs_body and not req.has_body):
            continue
        try:
            if claims:
                answer = function(req, res)
                if answer is None:
                    continue
                if await answer is GO_ON:
                    continue
                return
            following = Next((steps, req, res, out), at)
            if error is None:
                result = function(req, res, following)
            else:
                result = function(error, req, res, following)
            while result is not following and hasattr(result, "__await__"):
                result = await result
        except Exception as raised:  # noqa: BLE001  # every error goes on to the error steps
            error = raised
            continue
        if following.went_on:
            return
        if not following.called:
            _note_end(function, req, res)
            return
        error = following.error if result is following else _not_awaited(function, following)
    await out(error)


describe_frames(
    run_steps,
    lambda names: f"middleware {name_of(names['function'])} ({names['req'].method})",
)


def _note_end(function: Callable[..., Any], req: Any, res: Any) -> None:
    if req.ended_by is None and not res.headers_sent:
        req.ended_by = function


def _not_awaited(function: Callable[..., Any], following: Next) -> RuntimeError:
    following.went_on = True  # a task that awaits it later finds it closed
    return RuntimeError(
        f"{name_of(function)} called next() without waiting for it; write `await next()`"
        " (or `return next()` in a plain function)"
    )
