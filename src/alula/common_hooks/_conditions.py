"""Hooks under a condition, and the conditions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from alula._context import HookContext
from alula._user_code import name_of, unfit_signature
from alula.hooks import (
    Hook,
    HookNext,
    Next,
    annotate_hook,
    compose,
    factory_call,
    hook_factory,
    run_hooks,
)

__all__ = ["Conditional", "every", "iff", "is_external", "some", "unless"]

Predicate: TypeAlias = Callable[[HookContext], bool | Awaitable[bool]]
"""A function of the context that tells whether something holds, plain or asynchronous."""


class Conditional:
    """Hooks that run under a condition; `iff` and `unless` make it.

    It is a hook of the type that it is registered as, and so are the hooks in it. What these say
    about themselves does not count for it: `authenticate` in it does not make a method one that
    needs credentials.

    Args:
        predicate: The condition.
        expected: What the predicate has to return for ``hooks`` to run.
        hooks: The hooks that run then.
        otherwise: The hooks that run else.

    Raises:
        TypeError: The predicate is not a function of the context.
    """

    def __init__(
        self,
        predicate: Predicate,
        *,
        expected: bool,
        hooks: tuple[Hook, ...],
        otherwise: tuple[Hook, ...] = (),
    ) -> None:
        _check_predicates("iff" if expected else "unless", (predicate,))
        self._predicate = predicate
        self._expected = expected
        self._hooks = hooks
        self._otherwise = otherwise
        annotate_hook(self, hooks=(*hooks, *otherwise))

    def otherwise(self, *hooks: Hook) -> Conditional:
        """Return the same with hooks that run if the condition does not hold."""
        return Conditional(
            self._predicate,
            expected=self._expected,
            hooks=self._hooks,
            otherwise=(*self._otherwise, *hooks),
        )

    def __call__(
        self, context: HookContext, next: Next | None = None
    ) -> Coroutine[Any, Any, None] | None:
        holds: Any = self._predicate(context)
        if hasattr(holds, "__await__"):
            return self._wait(holds, context, next)
        return self._run(holds, context, next)

    async def _wait(self, holds: Awaitable[bool], context: HookContext, next: Next | None) -> None:
        running = self._run(await holds, context, next)
        if running is not None:
            await running

    def _run(
        self, holds: object, context: HookContext, next: Next | None
    ) -> Coroutine[Any, Any, None] | None:
        hooks = self._hooks if bool(holds) is self._expected else self._otherwise
        if next is not None:
            return compose(hooks, lambda _: next(), HookNext)(context) if hooks else next()
        return run_hooks(context.type, hooks, context) if hooks else None


@hook_factory("iff(is_external(), hook)")
def iff(predicate: Predicate, *hooks: Hook) -> Conditional:
    """Return a hook that runs others if a condition holds: ``iff(condition, a, b).otherwise(c)``.

    It is registered as a before, after, around or error hook, and runs the others as such.

    Args:
        predicate: A function of the context, plain or asynchronous.
        hooks: The hooks, in their order.

    Raises:
        TypeError: The predicate is not a function of the context, or there are no hooks. At its
            registration: a hook in it cannot be of that type, or runs at a place of its own.

    Examples:
        >>> from alula import App, disallow
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService())
        >>> is_bulk = lambda context: context.id is None
        >>> notes = app.service("notes").hooks(
        ...     before={"remove": [iff(is_bulk, disallow("external"))]}
        ... )
    """
    if not hooks:
        raise TypeError("iff needs hooks: iff(condition, hook)")
    return Conditional(predicate, expected=True, hooks=hooks)


@hook_factory("unless(is_external(), hook)")
def unless(predicate: Predicate, *hooks: Hook) -> Conditional:
    """Return a hook that runs others if a condition does not hold; see `iff`.

    Args:
        predicate: A function of the context, plain or asynchronous.
        hooks: The hooks, in their order.

    Raises:
        TypeError: As `iff`.
    """
    if not hooks:
        raise TypeError("unless needs hooks: unless(condition, hook)")
    return Conditional(predicate, expected=False, hooks=hooks)


@hook_factory("every(one, another)")
def every(*predicates: Predicate) -> Predicate:
    """Return a condition that holds if all of these hold; they are asked in their order.

    Raises:
        TypeError: There are none, or one is not a function of the context.
    """
    _check_predicates("every", predicates)

    async def all_hold(context: HookContext) -> bool:
        for predicate in predicates:
            holds: Any = predicate(context)
            if not (await holds if hasattr(holds, "__await__") else holds):
                return False
        return True

    return all_hold


@hook_factory("some(one, another)")
def some(*predicates: Predicate) -> Predicate:
    """Return a condition that holds if one of these holds; they are asked in their order.

    Raises:
        TypeError: There are none, or one is not a function of the context.
    """
    _check_predicates("some", predicates)

    async def one_holds(context: HookContext) -> bool:
        for predicate in predicates:
            holds: Any = predicate(context)
            if await holds if hasattr(holds, "__await__") else holds:
                return True
        return False

    return one_holds


@hook_factory("is_external()")
def is_external() -> Predicate:
    """Return a condition that holds for all calls of clients, whichever transport they use.

    There is no condition for single transports. A guard under such a condition would not hold for
    the transport that somebody forgets, or adds later.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.common_hooks import only_own
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(before=[iff(is_external(), only_own("userId"))])
    """
    return _is_external


def _is_external(context: HookContext) -> bool:
    return context.params.provider is not None


def _check_predicates(function: str, predicates: tuple[object, ...]) -> None:
    if not predicates:
        raise TypeError(f"{function} needs conditions: functions of the context")
    for predicate in predicates:
        if (call := factory_call(predicate)) is not None:
            raise TypeError(
                f"{function}: {name_of(predicate)} makes a condition and is not one itself; write"
                f" {call}"
            )
        if not callable(predicate) or unfit_signature(predicate, "context") is not None:
            raise TypeError(f"{function}: {predicate!r} is not a function of (context)")
