"""Runs hooks: around hooks inside one another, and the other types in their order.

A cancelled call is not an error. If a hook returns an awaitable, it is awaited.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from alula._context import DECLARED_NAMES, WELL_KNOWN_NAMES, HookContext
from alula._user_code import describe_frames, did_you_mean, name_of
from alula.hooks._hooks import Hook, check_returned, hook_metadata
from alula.types import UNSET

__all__ = [
    "Call",
    "HookNext",
    "Next",
    "compose",
    "enter",
    "run_hooks",
    "surround",
    "watch_params",
    "with_error",
]

_log: Final = logging.getLogger("alula")

Call: TypeAlias = Callable[[HookContext], Coroutine[Any, Any, None]]

Inner: TypeAlias = Callable[[Any], Coroutine[Any, Any, None]]
"""The rest of the call, further in: a function of the context."""


class Next:
    """What an around hook calls to go on. A second call runs the rest again (a retry).

    Attributes:
        pending: The coroutine of the last call, None before the first.
    """

    __slots__ = ("_context", "_inner", "pending")

    def __init__(self, inner: Inner, context: Any) -> None:
        self._inner = inner
        self._context = context
        self.pending: Coroutine[Any, Any, None] | None = None

    def __call__(self) -> Coroutine[Any, Any, None]:
        """Return the coroutine that runs the rest; await it."""
        self.pending = self._inner(self._context)
        return self.pending

    def returned(self, hook: Hook, value: object) -> None:
        """Handle a value that the hook returned; hooks of setup and teardown may return any."""

    def unused(self, hook: Hook) -> None:
        """Handle that the hook ended without a call of its ``next``."""


def compose(hooks: Sequence[Hook], last: Inner, next_type: type[Next] = Next) -> Inner:
    """Return one function of the context that runs around hooks, and inside them ``last``.

    Args:
        hooks: Functions of ``(context, next)``, the outermost first.
        last: The core.
        next_type: The class of each hook's ``next``.
    """
    composed = last
    for hook in reversed(hooks):
        composed = _wrapped(hook, composed, next_type)
    return composed


def surround(hooks: Sequence[Hook], call: Call) -> Call:
    """Return a call with around hooks, made once; a hook that is idle in a call is left out of it.

    Args:
        hooks: Functions of ``(context, next)``, the outermost first.
        call: The core.
    """
    for hook in reversed(hooks):
        is_idle = hook_metadata(hook).get("is_idle")
        entered = _wrapped(hook, call, HookNext)
        call = entered if is_idle is None else _unless_idle(is_idle, entered, call)
    return call


def _wrapped(hook: Hook, inner: Inner, next_type: type[Next]) -> Inner:
    return lambda context: enter(hook, context, next_type(inner, context))


def _unless_idle(is_idle: Callable[[HookContext], bool], entered: Call, inner: Call) -> Call:
    return lambda context: inner(context) if is_idle(context) else entered(context)


async def enter(hook: Hook, context: object, following: Next) -> None:
    """Run one around hook, and await what it returns and what its ``next`` started.

    ``return next()`` in a plain function works, as does a coroutine returned without ``await``.

    Raises:
        RuntimeError: The hook called ``next()`` without awaiting it; the rest would run too late
            or never.
        Exception: Any that the hook raises.
    """
    result = hook(context, following)
    while result is not None and hasattr(result, "__await__"):
        result = await result
    if result is not None:
        following.returned(hook, result)
    pending = following.pending
    if pending is None:
        following.unused(hook)
    elif pending.cr_frame is not None:  # type: ignore[attr-defined]  # Coroutine's ABC leaves out what every native coroutine has
        if inspect.getcoroutinestate(pending) == inspect.CORO_CREATED:
            pending.close()  # a coroutine that started runs in a task, which owns it
        raise RuntimeError(
            f"{name_of(hook)} called next() without waiting for it; write `await next()`"
            " (or `return next()` in a plain function)"
        )


class HookNext(Next):
    """The ``next`` of an around hook; a further call of it is a new attempt (a retry)."""

    __slots__ = ("_result",)

    def __call__(self) -> Coroutine[Any, Any, None]:
        context: HookContext = self._context
        if self.pending is None:
            self._result = context.result
        else:  # the result of the first attempt would take the method's place
            context.result, context.dispatch, context.error = self._result, UNSET, None
        self.pending = self._inner(context)
        return self.pending

    def returned(self, hook: Hook, value: object) -> None:
        """Refuse a value that would be lost; see `check_returned`."""
        check_returned("around", hook, value, self._context)

    def unused(self, hook: Hook) -> None:
        """Refuse a hook that has set no result either.

        Raises:
            RuntimeError: The call would have no result.
        """
        context: HookContext = self._context
        if context.result is UNSET:
            raise RuntimeError(
                f"around hook {name_of(hook)} neither awaited next() nor set context.result,"
                f" in `{context.method}` of {context.service!r}"
            )


def with_error(call: Call, hooks: Sequence[Hook]) -> Call:
    """Return ``call`` with error hooks around it, which may set a result or another error.

    Raises:
        TypeError: By the call: ``context.error`` was set to something that is not an exception.
    """

    async def run(context: HookContext) -> None:
        try:
            await call(context)
        # Not BaseException: a cancelled call has to end, so error hooks cannot recover it.
        except Exception as error:  # error hooks see every error, and decide
            # Without the result: it may be what an after hook failed to redact, and must not be
            # sent.
            context.error, context.result, context.dispatch = error, UNSET, UNSET
            await run_hooks("error", hooks, context)
            if context.result is UNSET:
                # A bare raise: the traceback stays as it is, without a cause that points to itself.
                if context.error is error:
                    raise
                if isinstance(context.error, BaseException):
                    raise context.error from error
                if context.error is not None:
                    raise TypeError(
                        f"an error hook for `{context.method}` of {context.service!r} set"
                        f" context.error to {context.error!r}; set an exception, or None with a"
                        " result"
                    ) from error
                context.result = None
            context.error = None

    return run


async def run_hooks(kind: str, hooks: Sequence[Hook], context: HookContext) -> None:
    """Run hooks ``(context)`` in order, and await what they return."""
    outer, context.type = context.type, kind
    try:  # hooks further out go on when these fail, and see their own type again
        for hook in hooks:
            result = hook(context)
            while result is not None and hasattr(result, "__await__"):
                result = await result
            if result is not None:
                check_returned(kind, hook, result, context)
    finally:
        context.type = outer


def _describe_around(names: Mapping[str, Any]) -> str:
    context = names["context"]
    service = getattr(context, "service", None)
    what = f"{context.method} hook" if service is None else "around hook"
    return f"{what} {name_of(names['hook'])} of {context.app if service is None else service!r}"


describe_frames(enter, _describe_around)
describe_frames(
    run_hooks,
    lambda names: f"{names['kind']} hook {name_of(names['hook'])} of {names['context'].service!r}",
)


def watch_params(call: Call) -> Call:
    """Return a call that logs params which are close to a known name, for ``debug``.

    Hooks may set any attribute, so a slip such as ``params.qurey`` is no error.
    """

    async def run(context: HookContext) -> None:
        for name in context.params.__dict__.keys() - DECLARED_NAMES:
            _warn_of_param(name)
        await call(context)

    return run


@lru_cache(maxsize=1024)  # once for each name
def _warn_of_param(name: str) -> None:
    if hint := did_you_mean(name, WELL_KNOWN_NAMES, 0.8):
        _log.warning(
            "a hook has set params.%s%s If not, declare it: Params.declare(%r)", name, hint, name
        )
