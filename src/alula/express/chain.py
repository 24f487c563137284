"""The middleware chain: one step after the other, errors to the error steps behind them.

As in Express: an exception, or ``await next(error)``, skips to the next error middleware that was
registered after the one where it came up. ``await next()`` itself never raises, so what a
middleware does after it (a duration, a header) is done for failed requests too.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias

from alula.compose import Layer, Next, enter
from alula.errors import GeneralError

__all__ = ["ErrorRun", "Run", "Step", "chain"]

Run: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, None]]
"""Handles ``(req, res)``."""

ErrorRun: TypeAlias = Callable[[Exception, Any, Any], Coroutine[Any, Any, None]]
"""Handles ``(error, req, res)``."""


class Step(NamedTuple):
    """One registered middleware.

    Attributes:
        function: ``(req, res, next)``, or ``(error, req, res, next)`` where it takes errors.
        takes_errors: Which of both it is.
    """

    function: Layer
    takes_errors: bool = False


class _ChainNext(Next):
    """``next()`` goes on, ``next(error)`` goes on to the error middleware."""

    __slots__ = ("_on_error",)

    def __init__(self, inner: Run, args: tuple[Any, Any], on_error: ErrorRun) -> None:
        super().__init__(inner, args)
        self._on_error = on_error

    def __call__(self, error: object = None) -> Coroutine[Any, Any, Any]:
        if error is None:
            return super().__call__()
        if not isinstance(error, Exception):
            error = GeneralError(str(error))
        self.pending = self._on_error(error, *self._args)
        return self.pending


def chain(steps: Sequence[Step], last: Run, last_error: ErrorRun) -> Run:
    """Return one function that runs the steps.

    Args:
        steps: In the order of their registration.
        last: Runs where every step called ``next()``.
        last_error: Runs for errors that no step took. It must not raise.
    """
    run, on_error = last, last_error
    for step in reversed(steps):
        if step.takes_errors:
            on_error = _error_step(step.function, run, on_error)
        else:
            run = _step(step.function, run, on_error)
    return run


def _step(layer: Layer, inner: Run, on_error: ErrorRun) -> Run:
    async def run(req: Any, res: Any) -> None:
        args = (req, res)
        try:
            await enter(layer, args, _ChainNext(inner, args, on_error))
        except Exception as error:  # noqa: BLE001  # every error goes on to the error middleware
            await on_error(error, req, res)

    return run


def _error_step(layer: Layer, inner: Run, following: ErrorRun) -> ErrorRun:
    async def run(error: Exception, req: Any, res: Any) -> None:
        try:
            await enter(layer, (error, req, res), _ChainNext(inner, (req, res), following))
        except Exception as raised:  # noqa: BLE001  # as above
            await following(raised, req, res)

    return run
