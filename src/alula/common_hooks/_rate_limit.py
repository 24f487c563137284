"""How often clients may call: by user, by address, or by what you name."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from alula._context import HookContext
from alula._gcra import Budget, MemoryTimes, ServiceTimes, Times, too_many_requests
from alula._identity import private_service
from alula._shares import network_of
from alula.common_hooks._call import check_properties, user_id
from alula.hooks import Hook, Next, annotate_hook, hook_factory

__all__ = ["rate_limit"]

By: TypeAlias = Literal["user", "address"] | Callable[[HookContext], object]

_MAX_KEY_LENGTH: Final = 200
_CAPACITY: Final = 50_000
"""The number of budgets that are kept in memory, some 10 MB."""


@hook_factory('rate_limit(100, window=60, by="user")')
def rate_limit(
    tries: int,
    *,
    window: float,
    by: By,
    of: str = "id",
    entity: str = "user",
    service: str | None = None,
    now: Callable[[], float] = time.time,
) -> Hook:
    """Return a hook that limits how often clients call a method, by GCRA.

    A client may call ``tries`` times at once; then the budget refills evenly, so the next call is
    allowed after ``window / tries`` seconds. Each method of each service has budgets of its own.
    Calls of the application pass.

    Args:
        tries: The calls in a window.
        window: How long a budget that is spent takes to refill, in seconds.
        by: Whose calls are counted together. ``"user"``: those of the signed-in user; register the
            hook behind `authenticate`. ``"address"``: those of a network address, of IPv6 its first
            64 bits; calls without an address share one budget. Or a function of the context that
            returns a text or a number.
        of: With ``by="user"``, the property of the user that has the id.
        entity: With ``by="user"``, the name of the user in params: the ``entity`` of the
            authentication service.
        service: The path of a service that stores the budgets for several processes. It is closed
            to clients; the one of the sign-in throttle serves as well. None keeps the budgets in
            the memory of this process.
        now: The clock, in seconds since 1970.

    Raises:
        ValueError: An argument is not valid.
        TypeError: ``of`` or ``entity`` is not a string.
        TooManyRequests: By the hook: the budget is spent. ``Retry-After`` says how many seconds to
            wait.
        NotAuthenticated: By the hook, with ``by="user"``: nobody is signed in.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService())
        >>> limit = rate_limit(10, window=60, by="address")
        >>> notes = app.service("notes").hooks(before={"create": [limit]})
    """
    if type(tries) is not int or tries < 1:
        raise ValueError(f"rate_limit: tries is {tries!r}; give a whole number from 1 on")
    milliseconds = int(window * 1000)
    if milliseconds < tries:
        raise ValueError(f"rate_limit: window is {window!r}; give seconds, a thousandth per try")
    check_properties("rate_limit", of, entity)
    callers: dict[object, Callable[[HookContext], object]] = {
        "user": lambda context: user_id(context, "rate_limit", of, entity),
        "address": lambda context: network_of(context.params.ip),
    }
    caller = callers.get(by, by)
    if not callable(caller):
        raise ValueError(f"rate_limit: by is {by!r}; give 'user', 'address' or a function")
    budget = Budget(milliseconds, milliseconds // tries)
    limits = f"{tries}/{milliseconds}"
    store: Times | None = MemoryTimes(_CAPACITY, now) if service is None else None

    async def limit(context: HookContext, next: Next | None = None) -> None:
        nonlocal store
        if context.params.provider is not None:
            # The caller comes last: a NUL in it cannot imitate another part.
            key = f"{context.path}\0{context.method}\0{limits}\0{caller(context)}"
            # Databases must not have what clients send, which may also be long. In memory, a short
            # key saves a microsecond.
            if service is not None or len(key) > _MAX_KEY_LENGTH:
                key = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            if store is None:
                handle = private_service(context.app, service or "", "rate_limit(service=...)")
                store = ServiceTimes(handle, now)
            await store.sweep_once_in(milliseconds)
            if wait := await store.take(key, budget):
                raise too_many_requests("Too many requests", wait)
        if next is not None:
            await next()

    needs_user = "rate_limit" if by == "user" else ""
    return annotate_hook(limit, kinds=("before", "around"), needs_user=needs_user)
