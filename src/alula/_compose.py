"""The onion: functions around functions, composed once, for hooks and middleware alike.

A layer gets what it works on and ``next``; it awaits ``next()`` to go inwards. Rules held here:

- whatever a layer returns that can be awaited is awaited, so that ``return next()`` in a plain
  function works, and a forgotten ``await`` before a returned coroutine does no harm;
- a layer that calls ``next()`` and does not wait for it is an error that names the layer, since
  everything further in would run too late or never.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from alula._user_code import name_of

__all__ = ["Layer", "Next", "compose", "enter"]

Layer: TypeAlias = Callable[..., Any]
Inner: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


class Next:
    """What a layer calls to go on. Calling it twice runs what is further in twice (a retry).

    Attributes:
        pending: What the last call began, None while the layer has not called it.
    """

    __slots__ = ("_args", "_inner", "pending")

    def __init__(self, inner: Inner, args: tuple[Any, ...]) -> None:
        self._inner = inner
        self._args = args
        self.pending: Coroutine[Any, Any, Any] | None = None

    def __call__(self) -> Coroutine[Any, Any, Any]:
        """Return the coroutine that runs all that is further in; it has to be awaited."""
        self.pending = self._inner(*self._args)
        return self.pending

    def returned(self, layer: Layer, value: Any) -> None:
        """Take note that ``layer`` returned a value; here it may, and nobody uses it."""

    def unused(self, layer: Layer) -> None:
        """Take note that ``layer`` has ended and did not call its ``next``; here it need not."""


async def enter(layer: Layer, args: tuple[Any, ...], following: Next) -> None:
    """Run one layer and wait for all that it began.

    Args:
        layer: Called with ``args`` and ``following``.
        args: What the layer works on: a hook context, or request and response.
        following: The ``next`` of the layer.

    Raises:
        RuntimeError: The layer called ``next()`` without awaiting it.
        Exception: Whatever the layer raises.
    """
    result = layer(*args, following)
    while result is not None and hasattr(result, "__await__"):
        result = await result
    if result is not None:
        following.returned(layer, result)
    pending = following.pending
    if pending is None:
        following.unused(layer)
    elif pending.cr_frame is not None:  # type: ignore[attr-defined]  # Coroutine's ABC leaves out what every native coroutine has
        if inspect.getcoroutinestate(pending) == inspect.CORO_CREATED:
            pending.close()  # else it runs in a task, which owns it
        raise RuntimeError(
            f"{name_of(layer)} called next() without waiting for it; write `await next()`"
            " (or `return next()` in a plain function)"
        )


def compose(layers: Sequence[Layer], last: Inner, following: type[Next] = Next) -> Inner:
    """Return one function that runs the layers from the first inwards, and at the core ``last``.

    Args:
        layers: Functions of ``(*args, next)``, the outermost first.
        last: The core, called with ``args`` alone.
        following: What every layer gets as ``next``.
    """
    composed = last
    for layer in reversed(layers):
        composed = _around(layer, composed, following)
    return composed


def _around(layer: Layer, inner: Inner, following: type[Next]) -> Inner:
    def run(*args: Any) -> Coroutine[Any, Any, Any]:
        return enter(layer, args, following(inner, args))

    return run
