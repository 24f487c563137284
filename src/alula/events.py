"""Listeners for named events, on the application and on every service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar, overload

from alula.compose import name_of

__all__ = ["EventEmitter"]

Listener = TypeVar("Listener", bound=Callable[..., Any])

_log = logging.getLogger("alula.events")


class EventEmitter:
    """Calls listeners by the name of an event.

    A listener never changes the outcome of the call that caused its event: what it raises is
    logged. Plain functions run at once; what a coroutine function begins runs beside the call,
    and `drain` waits for it.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[..., Any]]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    @overload
    def on(self, event: str, listener: Listener) -> Listener: ...
    @overload
    def on(self, event: str) -> Callable[[Listener], Listener]: ...
    def on(self, event: str, listener: Any = None) -> Any:
        """Call ``listener`` whenever ``event`` is emitted; also ``@service.on("created")``."""
        if listener is None:
            return lambda function: self.on(event, function)
        self._listeners.setdefault(event, []).append(listener)
        return listener

    def off(self, event: str, listener: Callable[..., Any] | None = None) -> None:
        """Stop calling one listener of an event, or all of them."""
        listeners = self._listeners.get(event, ())
        kept = [] if listener is None else [x for x in listeners if x != listener]
        if kept:
            self._listeners[event] = kept
        else:
            self._listeners.pop(event, None)

    def has_listeners(self, event: str) -> bool:
        """Tell whether anybody listens."""
        return event in self._listeners

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event with ``values``; tell whether there were any."""
        listeners = self._listeners.get(event, ())
        for listener in tuple(listeners):
            try:
                result = listener(*values)
            except Exception:  # noqa: BLE001  # a listener must never fail the call it follows
                _log.exception("the listener %s for %r failed", name_of(listener), event)
                continue
            if result is not None and hasattr(result, "__await__"):
                self._start(result, listener, event)
        return bool(listeners)

    async def drain(self) -> None:
        """Wait until all listeners that are under way have ended."""
        while self._running:
            await asyncio.gather(*self._running)

    def _start(self, awaitable: Any, listener: Callable[..., Any], event: str) -> None:
        async def run() -> None:
            try:
                await awaitable
            except Exception:  # noqa: BLE001  # as above
                _log.exception("the listener %s for %r failed", name_of(listener), event)

        task = asyncio.ensure_future(run())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
