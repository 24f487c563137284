"""Listeners for named events, on the application and on every service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar, overload

from alula._context import HookContext
from alula._user_code import describe_frames, name_of

__all__ = ["EventEmitter", "HeldEvents", "emit_when_due", "loop_is_running"]

Listener = TypeVar("Listener", bound=Callable[..., Any])
T = TypeVar("T")

_log = logging.getLogger("alula.events")
_PATIENCE = 5.0  # seconds between two warnings about listeners that have not ended


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
        """Call ``listener`` whenever ``event`` is emitted; also ``@service.on("created")``.

        Raises:
            TypeError: The event is not a name, or the listener not a function that fits.
            ValueError: Nothing here emits such an event.
        """
        return self._listen("on", event, listener)

    @overload
    def once(self, event: str, listener: Listener) -> Listener: ...
    @overload
    def once(self, event: str) -> Callable[[Listener], Listener]: ...
    def once(self, event: str, listener: Any = None) -> Any:
        """Call ``listener`` the next time that ``event`` is emitted, and not again.

        Raises:
            TypeError: The event is not a name, or the listener not a function that fits.
            ValueError: Nothing here emits such an event.
        """
        return self._listen("once", event, listener)

    def _listen(self, how: str, event: str, listener: Any) -> Any:
        if not isinstance(event, str):
            raise TypeError(
                f"{how}({event!r}): an event is a name, such as @service.{how}('created')"
            )
        self._check_event(event)
        if listener is None:
            return lambda function: self._listen(how, event, function)
        if not callable(listener):
            raise TypeError(f"{how}({event!r}, {listener!r}): a listener is a function")
        self._check_listener(event, listener)
        called = listener if how == "on" else _Once(self, event, listener)
        self._listeners.setdefault(event, []).append(called)
        return listener

    def _check_event(self, event: str) -> None:
        """Refuse the name of an event that nothing here emits; subclasses know which these are."""

    def _check_listener(self, event: str, listener: Callable[..., Any]) -> None:
        """Refuse a listener that cannot take what an event brings."""

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
        """Call the listeners of an event with ``values``; tell whether there were any.

        Raises:
            RuntimeError: A listener is asynchronous and no event loop is running.
        """
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
        """Wait until all that was begun has ended; it may be called by a listener itself.

        What takes long is named in the log, so that a listener that never ends can be found.
        """
        while begun := self._running - {asyncio.current_task()}:
            _, late = await asyncio.wait(begun, timeout=_PATIENCE)
            for task in late:
                _log.warning("still waiting for %s", task.get_name())

    def _start(self, awaitable: Any, listener: Callable[..., Any], event: str) -> None:
        if not loop_is_running():
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            raise RuntimeError(
                f"the listener {name_of(listener)} is asynchronous; emit {event!r} where an event"
                " loop is running"
            )
        name = f"the listener {name_of(listener)} for {event!r}"
        self._run_beside(_finish(awaitable, listener, event), name)

    def _run_beside(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin a task that `drain` waits for."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


async def _finish(awaitable: Any, listener: Callable[..., Any], event: str) -> None:
    try:
        await awaitable
    except Exception:  # noqa: BLE001  # a listener must never fail the call it follows
        _log.exception("the listener %s for %r failed", name_of(listener), event)


def _described(names: Mapping[str, Any]) -> str:
    return f"listener {name_of(names['listener'])} for {names['event']!r}"


describe_frames(EventEmitter.emit, _described)
describe_frames(_finish, _described)


class _Once:
    """A listener that stops listening before it is called; it equals the one that it calls."""

    def __init__(self, emitter: EventEmitter, event: str, listener: Callable[..., Any]) -> None:
        self._emitter, self._event, self._listener = emitter, event, listener
        self.__qualname__ = getattr(listener, "__qualname__", type(listener).__qualname__)
        self.__module__ = getattr(listener, "__module__", __name__)

    def __call__(self, *values: Any) -> Any:
        listeners = self._emitter._listeners.get(self._event, [])  # noqa: SLF001  # one room
        kept = [listener for listener in listeners if listener is not self]
        if len(kept) == len(listeners):  # an event that it was called for emitted it again
            return None
        if kept:
            self._emitter._listeners[self._event] = kept  # noqa: SLF001
        else:
            del self._emitter._listeners[self._event]  # noqa: SLF001
        return self._listener(*values)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._listener

    __hash__ = None  # type: ignore[assignment]  # it equals another function


class HeldEvents:
    """Holds back the events of calls that may yet be undone: ``with HeldEvents(belongs) as held``.

    What is held when the block ends waits for `release`; without that, nobody hears of it.

    Args:
        belongs: Tells by its context whether a call is one of them; the events of others go out
            as they come.
    """

    def __init__(self, belongs: Callable[[HookContext], bool]) -> None:
        self._belongs: Callable[[HookContext], bool] | None = belongs
        self._waiting: list[Callable[[], None]] = []

    def __enter__(self) -> HeldEvents:
        self._outer = _held.get()
        self._token = _held.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _held.reset(self._token)
        self._belongs = None  # tasks that were begun inside may go on, and hold nothing any more

    def drop(self) -> None:
        """Forget what was held so far."""
        self._waiting.clear()

    def release(self) -> None:
        """Emit what was held, in its order."""
        waiting, self._waiting = self._waiting, []
        for emit in waiting:
            emit()

    def takes(self, context: HookContext, emit: Callable[[], None]) -> bool:
        """Hold back what a call emits, here or in a block around this one; tell whether it is."""
        if self._belongs is not None and self._belongs(context):
            self._waiting.append(emit)
            return True
        return self._outer is not None and self._outer.takes(context, emit)


_held: ContextVar[HeldEvents | None] = ContextVar("held_events", default=None)


def emit_when_due(context: HookContext, emit: Callable[[], None]) -> None:
    """Call ``emit``, which emits the events of a call, unless they are held back."""
    held = _held.get()
    if held is None or not held.takes(context, emit):
        emit()


def loop_is_running() -> bool:
    """Tell whether tasks can be begun here."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop().is_running()
    return False
