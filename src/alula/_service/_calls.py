"""The calls of a service's methods: what a handle runs for each of them, composed once.

A coroutine for each layer would take a tenth of a short call, so layers that nothing tells apart
are one: checks before a method, the method, and the event behind it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from alula._context import HookContext
from alula._events import outcome_of
from alula._service_object import Method, Mountable
from alula._user_code import describe_frames, name_of
from alula.hooks import Call, Check, HookTable, behind_checks, watch_params
from alula.types import EVENT_OF_METHOD, ID_METHODS, METHODS_WITHOUT_DATA, UNSET

__all__ = [
    "Calls",
    "OfferedCall",
    "checked_method",
    "compose_calls",
    "emitting_call",
    "forwarding_call",
    "method_call",
    "offered_calls",
    "unset_result",
]

_Emit: TypeAlias = Callable[[str, HookContext], None]

OfferedCall: TypeAlias = tuple[Call, Method | None, bool, bool, str | None]
"""What transports need of a method that clients may call: how it is called with a context, and
without one (None if that cannot be), whether it takes an id and data, and its event. A plain tuple,
which Python takes apart fastest."""


class Calls(NamedTuple):
    """How a method is called.

    Attributes:
        run: With its hooks, and its event if the context has one.
        quick: The same without an event, in less time; None if hooks run behind the method.
        plain: The method itself, or behind one check (see `checks_only`), if there are no other
            hooks; None for one that is no coroutine function.
    """

    run: Call
    quick: Call | None
    plain: Method | None


def compose_calls(
    app: Any,
    service: Any,
    name: str,
    tables: tuple[HookTable, HookTable],
    emit: _Emit,
    *,
    is_mounted: bool,
    is_debugged: bool,
) -> Calls:
    """Return the calls of a method.

    Args:
        app: The application.
        service: The object behind the service.
        name: The name of the method.
        tables: The hooks of the application, and those of the service.
        emit: Emits the event of a call.
        is_mounted: Whether ``service`` is the handle of another application.
        is_debugged: Whether to warn of params whose names are nearly right.
    """
    of_app, own = tables

    def behind_hooks(call: Call) -> Call:
        inner = of_app.wrap_innermost(name, own.wrap_innermost(name, call))
        inner = of_app.wrap_changes(name, own.wrap_changes(name, inner))
        # As in FeathersJS: all hooks of the application are outside those of the service.
        return own.surround(name, of_app.wrap(name, own.wrap(name, inner)))

    call = forwarding_call(service, name) if is_mounted else method_call(service, name)
    if is_debugged:
        call = watch_params(call)
    composed = behind_hooks(call)
    is_last = behind_checks(composed) is call  # nothing runs behind the method, so it may emit
    if is_last and not (is_mounted or is_debugged):
        run = behind_hooks(method_call(service, name, emit))
    else:
        run = emitting_call(composed, emit)
    plain = getattr(composed, "method", None)
    if plain is not None and (check := getattr(composed, "check", None)) is not None:
        plain = checked_method(app, plain, check)
    return Calls(run, composed if is_last else None, plain)


def offered_calls(
    names: Iterable[str],
    runs: Mapping[str, Call],
    quick: Mapping[str, Call],
    plain: Mapping[str, Method],
) -> dict[str, OfferedCall]:
    """Return what transports need of the methods of a service.

    Args:
        names: The methods that clients may call.
        runs: By name, `Calls.run`.
        quick: By name, `Calls.quick`. It suffices for a method without an event.
        plain: By name, `Calls.plain`.
    """
    return {
        name: (
            runs[name] if name in EVENT_OF_METHOD else quick.get(name, runs[name]),
            plain.get(name),
            name in ID_METHODS,
            name not in METHODS_WITHOUT_DATA,
            EVENT_OF_METHOD.get(name),
        )
        for name in names
    }


def unset_result(context: HookContext) -> RuntimeError:
    """Return the error for a call that ended without a result."""
    return RuntimeError(
        f"{context.service!r}, `{context.method}`: context.result is UNSET after the call; set it"
        " to None for an empty result"
    )


def method_call(  # noqa: C901  # a further function would be a further frame of each call
    service: object,
    name: str,
    emit: _Emit | None = None,
    *,
    check: Check | None = None,
    before: Sequence[Callable[[HookContext], object]] = (),
) -> Call:
    """Return the function that calls a method, unless a hook has set the result before.

    Its attributes ``with_check`` and ``with_before`` return the same behind hooks of these kinds,
    in one coroutine; they are None where another hook would have to come first.

    Args:
        service: Has the method.
        name: The name of the method.
        emit: Is called after the method with the event of the call, if it has one.
        check: An around hook that only checks (see `checks_only`). It runs first.
        before: Before hooks that wait for nothing (see `never_waits`).
    """
    method = getattr(service, name)
    has_id = name in ID_METHODS
    has_data = name not in METHODS_WITHOUT_DATA
    is_coroutine = inspect.iscoroutinefunction(method)
    may_upsert = name in {"create", "update", "patch"}

    async def call(context: HookContext) -> None:  # every frame counts here
        if check is not None:
            await check(context.app, context._params)  # noqa: SLF001  # as below
        if before:
            outer, context.type = context.type, "before"
            try:
                for hook in before:
                    hook(context)
            finally:
                context.type = outer
        params = context._params  # noqa: SLF001  # the property takes 150 instructions of a call
        if context.result is UNSET:
            if has_data:
                data = context.data
                result = method(context.id, data, params) if has_id else method(data, params)
            else:
                result = method(context.id, params) if has_id else method(params)
            # is_coroutine is known since the registration; most calls skip the look at the result.
            if is_coroutine or hasattr(result, "__await__"):
                result = await result
            if result is UNSET:
                raise unset_result(context)
            context.result = result
            if may_upsert:
                _take_outcome(context)
        if emit is not None and (event := context.event) is not None:
            emit(event, context)

    def with_check(hook: Check) -> Call:
        return method_call(service, name, emit, check=hook, before=before)

    def with_before(hooks: Sequence[Callable[[HookContext], object]]) -> Call:
        return method_call(service, name, emit, before=hooks)

    marked: Any = call
    has_hooks = check is not None or bool(before)
    marked.method = method if is_coroutine and not before else None  # calls go straight there
    marked.check = check
    marked.with_check = None if check is not None else with_check
    marked.with_before = None if has_hooks else with_before
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
    is_before = "params" not in names  # not yet at the method
    if is_before and "hook" in names:
        return f"before hook {name_of(names['hook'])} of {context.service!r}"
    if is_before and names.get("check") is not None:
        return f"around hook {name_of(names['check'])} of {context.service!r}"
    return f"`{context.method}` of {context.service!r}"


def checked_method(app: object, method: Method, check: Check) -> Method:
    """Return a method behind a check of the params, which are its last argument."""

    async def call(*arguments: Any) -> Any:
        await check(app, arguments[-1])
        return await method(*arguments)

    return call


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
    """Return a call that then checks for a result, and emits the event, as `method_call` does."""

    async def run(context: HookContext) -> None:
        await composed(context)
        if context.result is UNSET:
            raise unset_result(context)
        if (event := context.event) is not None:
            emit(event, context)

    return run
