"""The calls of methods that stream. Such a call lasts until the first item.

So hooks, statuses and errors are the ordinary ones until then. ``context.result`` is the stream.
Whoever gets it closes it; a call that fails closes it itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from alula._context import HookContext
from alula._declared import Checks
from alula._item_stream import ItemStream, close_all, is_stream
from alula._service._declared_calls import method_caller
from alula._user_code import name_of
from alula.hooks import Call, Hook, HookTable, hook_metadata
from alula.types import UNSET

__all__ = ["check_hooks_of_stream", "closing_call", "streaming_call"]


def streaming_call(
    method: Callable[..., Any], name: str, checks: Checks, *, is_checked: bool
) -> Call:
    """Return the function that calls a method and opens its stream, unless a hook has set one.

    Args:
        method: The method.
        name: Its name.
        checks: What it declares.
        is_checked: Whether the hook of `check_hook` has run.

    Raises:
        TypeError: By the call: the method has returned no stream.
    """
    invoke = method_caller(method, name, checks, is_checked=is_checked)
    changes = [] if checks.result is None else [checks.result]
    status = checks.status

    async def call(context: HookContext) -> None:
        # An around hook may call the method several times.
        streams, context.streams = context.streams, ()
        await close_all(streams)
        if context.result is not UNSET:
            return
        items: Any = _Nothing()
        if context.wants_items:
            items = invoke(context)
            if hasattr(items, "__await__"):
                items = await items
            if not is_stream(items):
                raise TypeError(
                    f"`{name}` of {context.service!r} returned a {type(items).__name__}; by its"
                    " annotation it returns an asynchronous iterator"
                )
        stream = ItemStream(items, f"`{name}` of {context.service!r}", changes)
        context.streams = (stream,)
        await stream.begin()
        context.result = stream
        if status is not None and "status" not in context.http:
            context.http = {**context.http, "status": status}

    return call


class _Nothing(AsyncIterator[Any]):
    """A stream without items."""

    async def __anext__(self) -> Any:
        raise StopAsyncIteration


def closing_call(composed: Call) -> Call:
    """Return a call that streams, with all its hooks: it closes what it has opened if it fails.

    Raises:
        TypeError: By the call: a hook has replaced the stream by something else.
    """

    async def run(context: HookContext) -> None:
        try:
            await composed(context)
            if not is_stream(context.result) or context.dispatch is not UNSET:
                is_result = context.dispatch is UNSET
                name = "result" if is_result else "dispatch"
                value = context.result if is_result else context.dispatch
                raise TypeError(
                    f"a hook has set context.{name} of `{context.method}` of {context.service!r}"
                    f" to a {type(value).__name__}; the method streams, so set context.result to"
                    " an asynchronous iterator"
                )
        except BaseException:
            await close_all(context.streams)
            raise

    return run


def check_hooks_of_stream(table: HookTable, method: str, where: str) -> None:
    """Check that no hook around a method that streams needs the whole result.

    Args:
        table: The hooks.
        method: The method.
        where: Whose method it is, for the message.

    Raises:
        TypeError: One does.
    """
    for kind in ("around", "before", "after"):
        for hook in table.of(kind, method):
            for each in _with_inner(hook):
                needs = hook_metadata(each).get("needs_whole", ())
                if method in needs or "all" in needs:
                    raise TypeError(
                        f"{kind} hook {name_of(each)} cannot be registered for `{method}` of"
                        f" {where}: it needs the whole result, and this method streams; register"
                        " it for other methods"
                    )


def _with_inner(hook: Hook) -> Iterator[Hook]:
    yield hook
    for inner in hook_metadata(hook).get("hooks", ()):
        yield from _with_inner(inner)
