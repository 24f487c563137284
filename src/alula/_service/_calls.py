"""The calls of a service's methods: what a handle runs for each of them, composed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from alula._context import HookContext
from alula._events import outcome_of
from alula._service_object import Mountable
from alula._user_code import describe_frames
from alula.hooks import Call, HookTable, watch_params
from alula.types import EVENT_OF_METHOD, ID_METHODS, METHODS_WITHOUT_DATA, UNSET

__all__ = [
    "compose_calls",
    "emitting_call",
    "forwarding_call",
    "method_call",
]

_Emit: TypeAlias = Callable[[str, HookContext], None]


def compose_calls(
    service: Any,
    name: str,
    tables: tuple[HookTable, HookTable],
    emit: _Emit,
    *,
    is_mounted: bool,
    is_debugged: bool,
) -> Call:
    """Return the call of a method, with its hooks and its event.

    Args:
        service: The object behind the service.
        name: The name of the method.
        tables: The hooks of the application, and those of the service.
        emit: Emits the event of a call.
        is_mounted: Whether ``service`` is the handle of another application.
        is_debugged: Whether to warn of params whose names are nearly right.
    """
    of_app, own = tables
    call = forwarding_call(service, name) if is_mounted else method_call(service, name)
    if is_debugged:
        call = watch_params(call)
    inner = of_app.wrap_innermost(name, own.wrap_innermost(name, call))
    inner = of_app.wrap_changes(name, own.wrap_changes(name, inner))
    # As in FeathersJS: all hooks of the application are outside those of the service.
    composed = own.surround(name, of_app.wrap(name, own.wrap(name, inner)))
    return emitting_call(composed, emit)


def _unset_result(context: HookContext) -> RuntimeError:
    """Return the error for a call that ended without a result."""
    return RuntimeError(
        f"{context.service!r}, `{context.method}`: context.result is UNSET after the call; set it"
        " to None for an empty result"
    )


def method_call(service: object, name: str) -> Call:
    """Return the function that calls a method, unless a hook has set the result before.

    Args:
        service: Has the method.
        name: The name of the method.
    """
    method = getattr(service, name)
    has_id = name in ID_METHODS
    has_data = name not in METHODS_WITHOUT_DATA
    may_upsert = name in {"create", "update", "patch"}

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        params = context.params
        if has_data:
            data = context.data
            result = method(context.id, data, params) if has_id else method(data, params)
        else:
            result = method(context.id, params) if has_id else method(params)
        if hasattr(result, "__await__"):
            result = await result
        if result is UNSET:
            raise _unset_result(context)
        context.result = result
        if may_upsert:
            _take_outcome(context)

    return describe_frames(call, _describe_call)


def _take_outcome(context: HookContext) -> None:
    """Set the event of a call to what happened, unless a hook has chosen another one."""
    events = outcome_of(context.result)
    if events is not None and context.event == EVENT_OF_METHOD[context.method]:
        if len(set(events)) == 1:
            context.event = events[0]
        else:
            context.result_events = events


def _describe_call(names: Mapping[str, Any]) -> str:
    context = names["context"]
    return f"`{context.method}` of {context.service!r}"


def forwarding_call(handle: Mountable, name: str) -> Call:
    """Return the function that calls the same method of another application's handle.

    It takes over ``dispatch`` and ``http`` as well: a hook there may hide a password by them.
    """

    async def call(context: HookContext) -> None:
        if context.result is not UNSET:
            return
        # A copy: hooks of the inner application must not change the params of the outer one.
        params = context.params.copy()
        inner = HookContext(handle.app, handle, name, params, context.id, context.data)
        inner.http, inner.event, inner.caller = context.http, context.event, context.service
        await handle.run(inner)
        context.http, context.event = inner.http, inner.event
        context.result_events = inner.result_events
        context.result, context.dispatch = inner.result, inner.dispatch

    return call


def emitting_call(composed: Call, emit: _Emit) -> Call:
    """Return a call that then checks for a result, and emits the event."""

    async def run(context: HookContext) -> None:
        await composed(context)
        if context.result is UNSET:
            raise _unset_result(context)
        if (event := context.event) is not None:
            emit(event, context)

    return run
