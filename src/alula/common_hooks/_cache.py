"""Results of `find` and `get`, kept until the service changes.

What is kept is what the method itself returned. The hooks run in every call: those that decide
about the caller before it, those that redact after it. So nobody gets what another caller may see.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakSet

from alula._context import HookContext, Params
from alula._events import emit_unless_held
from alula._service import ServiceHandle
from alula.adapters._records import copied
from alula.common_hooks._call import own_service
from alula.hooks import Next, annotate_hook, hook_factory
from alula.types import EVENT_OF_METHOD, SCALAR_TYPES, UNSET, is_array, is_dict, is_mapping

__all__ = ["Cache", "cache"]

By: TypeAlias = Callable[[HookContext], object]

_CACHED: Final = frozenset({"find", "get"})
_OWN_RESULTS: Final = frozenset(
    {"live", "paginate", "adapter", "pipeline", "docdb", "sql", "collation"}
)
"""Params of the application's own calls that change results, or put the call in a transaction; and
the reads of live lists, for which a result from before the change is too old."""
_MAX_VALUES: Final = 200
_MAX_TEXT: Final = 1_000
"""Queries with more values, or with longer texts, are not kept: a client chooses them."""


_LARGE_PARTS: Final = 10
"""A result of more than a tenth of all bytes is not kept: ten such would drive out all others."""


class _Kept(NamedTuple):
    until: float
    result: Any
    size: int


class Cache:
    """The hook that `cache` returns, with what it keeps.

    Args:
        ttl: As `cache` takes it.
        by: As `cache` takes it.
        capacity: As `cache` takes it.
        max_bytes: As `cache` takes it.
        clock: As `cache` takes it.

    Attributes:
        size: About how many bytes of memory the results take that are kept.
    """

    def __init__(
        self,
        ttl: float,
        *,
        by: By | None,
        capacity: int,
        max_bytes: int,
        clock: Callable[[], float],
    ) -> None:
        self._ttl = ttl
        self._by = by
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._clock = clock
        # In the order of their use.
        self._kept: OrderedDict[object, _Kept] = OrderedDict()
        self.size = 0
        self._running: dict[object, asyncio.Future[Any]] = {}
        self._changes = 0
        self._handles: WeakSet[ServiceHandle] = WeakSet()
        annotate_hook(
            self, kinds=("around",), innermost=True, follows_changes=True, needs_whole=_CACHED
        )

    def __len__(self) -> int:
        """Return how many results are kept."""
        return len(self._kept)

    def clear(self) -> None:
        """Forget all results; calls that are running are not kept."""
        self._changes += 1
        self._kept.clear()
        self.size = 0
        self._running.clear()

    async def __call__(self, context: HookContext, next: Next) -> None:
        """Set the result from what is kept, or run the method and keep its result.

        Around any other method, forget all results behind it.
        """
        if context.method not in _CACHED:
            try:
                await next()
            finally:  # one that fails may have changed something, too
                # What a transaction changes is not there to be read before its end.
                emit_unless_held(context, self.clear)
            return
        key = self._key(context)
        if key is None or context.result is not UNSET:
            await next()
            return
        if (kept := self._kept.get(key)) is not None and kept.until > self._clock():
            self._kept.move_to_end(key)  # the most recent use
            context.result = copied(kept.result)
            return
        running = self._running.get(key)
        if running is None:
            await self._run(key, context, next)
            return
        # Not `await running`: a caller that is cancelled would cancel it for all others.
        await asyncio.wait([running])
        if (result := running.result()) is UNSET:  # the other call failed; this one may not
            await next()
        else:
            context.result = copied(result)

    async def _run(self, key: object, context: HookContext, next: Next) -> None:
        running = self._running[key] = asyncio.get_running_loop().create_future()
        changes, result = self._changes, UNSET
        try:
            await next()
            result = copied(context.result)
        finally:
            running.set_result(result)
            if self._running.get(key) is running:
                del self._running[key]
        if changes == self._changes:  # a change meanwhile may not be in this result
            self._keep(key, result)

    def _keep(self, key: object, result: object) -> None:
        """Keep a result, and forget those that were not used for the longest time."""
        largest = self._max_bytes // _LARGE_PARTS
        size = memory_of((key, result), largest)
        if (earlier := self._kept.pop(key, None)) is not None:
            self.size -= earlier.size
        if size > largest:
            return
        self._kept[key] = _Kept(self._clock() + self._ttl, result, size)
        self.size += size
        while len(self._kept) > self._capacity or self.size > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.size

    def _key(self, context: HookContext) -> object | None:
        """Return what the result depends on, None if it is not to be kept."""
        params: Params = context.params
        attributes = params.__dict__
        own = attributes.keys() & _OWN_RESULTS
        if own and any(attributes[name] is not None for name in own):
            return None
        query = params.query
        if "$include" in query:  # the caller's view of other services, whose changes do not tell
            return None
        handle: ServiceHandle = context.service
        if handle not in self._handles:
            own_service(context, "cache")
            for event in EVENT_OF_METHOD.values():
                handle.on(event, self._forget)
            self._handles.add(handle)
        route = attributes.get("route")
        parts: object = context.id
        has_more = bool(query or route) or self._by is not None
        if has_more:  # the key of most gets takes half the time
            origin = None if self._by is None else self._by(context)
            parts = [context.id, query, route, origin]
        try:
            frozen = _Frozen().of(parts)
            hash(frozen)
        except TypeError:  # a value that cannot be compared, or too many
            return None
        return context.path, context.method, params.provider is None, has_more, frozen

    def _forget(self, *_: object) -> None:
        self.clear()


class _Frozen:
    """Makes keys out of values, of a limited size."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def of(self, value: object) -> object:
        """Return a value that is equal for equal values of the same types only.

        Raises:
            TypeError: It is too large.
        """
        self._left -= 1
        if self._left < 0 or (isinstance(value, str) and len(value) > _MAX_TEXT):
            raise TypeError
        if value is None:
            return None
        type_ = type(value)
        if type_ in SCALAR_TYPES:
            return type_, value
        if is_mapping(value):
            return dict, *((self.of(name), self.of(inner)) for name, inner in value.items())
        if is_array(value):
            return list, *(self.of(inner) for inner in value)
        return type_, value


def memory_of(value: Any, enough: int) -> int:
    """Return about how many bytes of memory a value takes, with all values in it.

    Args:
        value: The value. What is in objects of other classes than lists and dicts is not counted.
        enough: Where counting may stop.
    """
    size = 0
    waiting: list[Any] = [value]
    while waiting and size <= enough:
        part = waiting.pop()
        if isinstance(part, type):  # in keys, and there only once
            continue
        size += sys.getsizeof(part)
        if is_dict(part):
            waiting.extend(part.keys())
            waiting.extend(part.values())
        elif is_array(part):
            waiting.extend(part)
    return size


@hook_factory("cache(60, by=None)")
def cache(
    ttl: float,
    *,
    by: By | None,
    capacity: int = 1_000,
    max_bytes: int = 64_000_000,
    clock: Callable[[], float] = time.monotonic,
) -> Cache:
    """Return an around hook that keeps results of `find` and `get` until the service changes.

    It runs directly around the method, wherever it is registered: all other hooks run in every
    call. So permissions are checked each time, and conditions that hooks add to the query are part
    of what a result is kept for, as are the method, the id and the path.

    Concurrent calls for the same result share one call of the method. Every call of another method
    ends all results, whichever methods the hook is registered for and whether the call emits an
    event. So does every event of the service (``created`` and so on). Changes by other processes
    are not noticed, so ``ttl`` bounds how old a result can be. Not kept are results of calls with
    ``$include``, and of those with options of the application for this call, such as a transaction.

    Args:
        ttl: How long a result is kept at most, in seconds.
        by: What else the method depends on: a function of the context that returns it, such as
            ``lambda context: context.params.user["id"]`` for a service that reads the user. None
            says: on nothing, which is right for all adapters.
        capacity: How many results are kept; the least recently used one goes first.
        max_bytes: About how many bytes of memory they may take in each process. The least recently
            used ones go first, and a result of more than a tenth of it is not kept.
        clock: Returns the time in seconds.

    Returns:
        The hook. Its ``clear()`` ends all results.

    Raises:
        ValueError: An argument is not valid.
        RuntimeError: By the hook: the service belongs to another application.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("news", MemoryService())
        >>> news = app.service("news").hooks(around=[cache(60, by=None)])
    """
    if not ttl > 0:
        raise ValueError(f"cache: ttl is {ttl!r}; give a number of seconds above 0")
    if by is not None and not callable(by):
        raise ValueError(f"cache: by is {by!r}; give a function of the context, or None")
    if type(capacity) is not int or capacity < 1:
        raise ValueError(f"cache: capacity is {capacity!r}; give a whole number from 1 on")
    if type(max_bytes) is not int or max_bytes < 1:
        raise ValueError(f"cache: max_bytes is {max_bytes!r}; give a whole number from 1 on")
    return Cache(ttl, by=by, capacity=capacity, max_bytes=max_bytes, clock=clock)
