"""Listeners for named events, on the application and on every service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, overload

from alula._context import HookContext
from alula._user_code import describe_frames, name_of
from alula.types import is_list

__all__ = [
    "EventEmitter",
    "HeldEvents",
    "Listener",
    "emit_unless_held",
    "is_in_transaction",
    "loop_is_running",
    "note_outcome",
    "outcome_of",
]

Listener: TypeAlias = Callable[..., Any]
AnyListener = TypeVar("AnyListener", bound=Listener)
T = TypeVar("T")

_log: Final = logging.getLogger("alula.events")
_WARNING_SECONDS: Final = 5.0
"""Seconds between two warnings about listeners that have not ended."""


class EventEmitter:
    """Calls listeners by the name of an event.

    A listener never changes the outcome of the call that emitted its event: its exceptions are
    logged. Plain functions run at once. Coroutine functions run as background tasks, which
    `wait_for_listeners` waits for.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}
        self._running: set[asyncio.Task[Any]] = set()

    @overload
    def on(self, event: str, listener: AnyListener) -> AnyListener: ...
    @overload
    def on(self, event: str) -> Callable[[AnyListener], AnyListener]: ...
    def on(self, event: str, listener: Listener | None = None) -> Listener:
        """Call ``listener`` for every ``event``; also ``@service.on("created")``.

        Raises:
            TypeError: The event is not a name, or the listener not a function that fits.
            ValueError: Nothing emits such an event here.
        """
        return self._listen("on", event, listener)

    @overload
    def once(self, event: str, listener: AnyListener) -> AnyListener: ...
    @overload
    def once(self, event: str) -> Callable[[AnyListener], AnyListener]: ...
    def once(self, event: str, listener: Listener | None = None) -> Listener:
        """Call ``listener`` for the next ``event`` only.

        Raises:
            TypeError: The event is not a name, or the listener not a function that fits.
            ValueError: Nothing emits such an event here.
        """
        return self._listen("once", event, listener)

    def _listen(self, how: str, event: str, listener: Listener | None) -> Listener:
        if not isinstance(event, str):
            raise TypeError(
                f"{how}({event!r}): an event is a name, such as @service.{how}('created')"
            )
        self._check_event(event)
        if listener is None:
            return partial(self._listen, how, event)
        if not callable(listener):
            raise TypeError(f"{how}({event!r}, {listener!r}): a listener is a function")
        self._check_listener(event, listener)
        called = listener if how == "on" else _Once(self, event, listener)
        self._listeners.setdefault(event, []).append(called)
        return listener

    def _check_event(self, event: str) -> None:
        """Refuse the name of an event that nothing emits here; subclasses know the names."""

    def _check_listener(self, event: str, listener: Listener) -> None:
        """Refuse a listener that does not take the values of an event."""

    def off(self, event: str, listener: Listener | None = None) -> None:
        """Remove one listener of an event, or all of them."""
        listeners = self._listeners.get(event, ())
        # By equality, not identity: each access makes a new bound method, and a `once` listener
        # equals the function that it wraps.
        kept = [] if listener is None else [x for x in listeners if x != listener]
        if kept:
            self._listeners[event] = kept
        else:
            # No empty list stays: calls look only whether the event is among the keys.
            self._listeners.pop(event, None)

    def has_listeners(self, event: str) -> bool:
        """Tell whether an event has listeners."""
        return event in self._listeners

    def emit(self, event: str, *values: Any) -> bool:
        """Call the listeners of an event with ``values``; tell whether there are any.

        Raises:
            RuntimeError: A listener is asynchronous and no event loop is running.
        """
        listeners = self._listeners.get(event, ())
        # A copy: listeners may remove themselves or add others.
        for listener in tuple(listeners):
            try:
                result = listener(*values)
            except Exception:  # noqa: BLE001  # a listener must never fail the call it follows
                _log.exception("the listener %s for %r failed", name_of(listener), event)
                continue
            if result is None or not hasattr(result, "__await__"):
                continue
            if not loop_is_running():
                if asyncio.iscoroutine(result):
                    result.close()  # else Python warns that it was never awaited
                raise RuntimeError(
                    f"the listener {name_of(listener)} is asynchronous; emit {event!r} where an"
                    " event loop is running"
                )
            name = f"the listener {name_of(listener)} for {event!r}"
            self._run_in_background(_finish(result, listener, event), name)
        return bool(listeners)

    def _run_in_background(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task that `wait_for_listeners` waits for."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)  # the loop itself keeps only weak references to tasks
        task.add_done_callback(self._running.discard)
        return task

    async def wait_for_listeners(self) -> None:
        """Wait for all background tasks, except the one that calls this.

        Tasks that take long are named in the log, to find a listener that never ends.
        """
        # A listener that drains would wait for itself. Tasks that end may start others: a loop.
        while running := self._running - {asyncio.current_task()}:
            _, late = await asyncio.wait(running, timeout=_WARNING_SECONDS)
            for task in late:
                _log.warning("still waiting for %s", task.get_name())


async def _finish(awaitable: Awaitable[object], listener: Listener, event: str) -> None:
    try:
        await awaitable
    except Exception:  # noqa: BLE001  # a listener must never fail the call it follows
        _log.exception("the listener %s for %r failed", name_of(listener), event)


def _description(names: Mapping[str, Any]) -> str:
    return f"listener {name_of(names['listener'])} for {names['event']!r}"


describe_frames(EventEmitter.emit, _description)
describe_frames(_finish, _description)


class _Once:
    """Removes a listener before its first call; equals that listener, for ``off``."""

    def __init__(self, emitter: EventEmitter, event: str, listener: Listener) -> None:
        self._emitter, self._event, self._listener = emitter, event, listener
        self.__qualname__ = getattr(listener, "__qualname__", type(listener).__qualname__)
        self.__module__ = getattr(listener, "__module__", __name__)

    def __call__(self, *values: Any) -> object:
        listeners = self._emitter._listeners.get(self._event, [])  # noqa: SLF001  # same module
        kept = [listener for listener in listeners if listener is not self]
        if len(kept) == len(listeners):  # its event was emitted again by another listener
            return None
        if kept:
            self._emitter._listeners[self._event] = kept  # noqa: SLF001  # as above
        else:
            del self._emitter._listeners[self._event]  # noqa: SLF001  # as above
        result: object = self._listener(*values)
        return result

    def __eq__(self, other: object) -> bool:
        return other is self or other == self._listener

    __hash__ = None  # type: ignore[assignment]  # it equals another function


class HeldEvents:
    """Holds back events of calls that may be undone: ``with HeldEvents(in_transaction) as held``.

    Events that are held when the block ends are emitted by `release`, and otherwise dropped.

    Args:
        holds: Tells by its context whether to hold the events of a call.
    """

    def __init__(self, holds: Callable[[HookContext], bool]) -> None:
        self._holds: Callable[[HookContext], bool] | None = holds
        self._outer: HeldEvents | None = None
        self._waiting: list[Callable[[], None]] = []

    def __enter__(self) -> HeldEvents:
        self._outer = _held.get()
        self._token = _held.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _held.reset(self._token)
        self._holds = None  # tasks started in the block keep its context variables after its end

    def drop(self) -> None:
        """Drop the events held so far."""
        self._waiting.clear()

    def release(self) -> None:
        """Emit the held events in order."""
        waiting, self._waiting = self._waiting, []
        for emit in waiting:
            emit()

    def hold(self, context: HookContext, emit: Callable[[], None]) -> bool:
        """Hold the event of a call, here or in an outer block; tell whether it is held."""
        if self._holds is not None and self._holds(context):
            self._waiting.append(emit)
            return True
        return self._outer is not None and self._outer.hold(context, emit)


_held: Final[ContextVar[HeldEvents | None]] = ContextVar("held_events", default=None)


_outcome: Final[ContextVar[Sequence[tuple[object, str]]]] = ContextVar("outcome", default=())


def note_outcome(records: Sequence[object], events: Sequence[str]) -> None:
    """Say which event each record of a result causes, if it is not that of the method.

    A service calls it before it returns them: ``create`` may have changed a record instead.

    Args:
        records: The records, which the service returns as they are, alone or in a list.
        events: The event of each.
    """
    _outcome.set(tuple(zip(records, events, strict=True)))


def outcome_of(result: object) -> list[str] | None:
    """Return the events that the service has noted for a result, None if it has noted none."""
    noted = _outcome.get()
    if not noted:
        return None
    _outcome.set(())
    records: Sequence[object] = result if is_list(result) else [result]
    # Of another result, if a service is called inside another one and its result is not returned.
    if [*map(id, records)] != [id(record) for record, _ in noted]:
        return None
    return [event for _, event in noted]


def is_in_transaction() -> bool:
    """Tell whether this code runs in a block whose events are held back: in a transaction."""
    held = _held.get()
    while held is not None:
        if held._holds is not None:  # noqa: SLF001  # of the same file
            return True
        held = held._outer  # noqa: SLF001  # as above
    return False


def emit_unless_held(context: HookContext, emit: Callable[[], None]) -> None:
    """Call ``emit``, which emits the event of a call, unless the event is held back."""
    held = _held.get()
    if held is None or not held.hold(context, emit):
        emit()


def loop_is_running() -> bool:
    """Tell whether tasks can be started here."""
    with suppress(RuntimeError):
        return asyncio.get_running_loop().is_running()
    return False
