"""The hooks of authentication: who is calling, and passwords on their way in.

Each can stand among before hooks and among around hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeAlias

from alula._context import HookContext, Params
from alula._identity import authentication_at, identify, strategies_of
from alula.authentication._entities import check_property
from alula.authentication._passwords import HashedPassword
from alula.errors import BadRequest, Conflict, MethodNotAllowed
from alula.hook_notes import maker, note
from alula.types import UNSET

__all__ = ["authenticate", "hash_password", "hide_taken", "password_hash"]

Hook: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


@maker('authenticate("jwt")')
def authenticate(
    *names: str, service: str | None = None, strategies: Iterable[str] | None = None
) -> Hook:
    """Return a hook that lets only those pass who prove who they are.

    It sets ``params.user``, ``params.authentication`` and ``params.authenticated``. Internal calls
    pass, unless they bring a proof, which then has to be good.

    Args:
        names: Names of the strategies that are allowed: ``authenticate("jwt")``.
        service: The path of the authentication service; None for the default one.
        strategies: The names, for use with ``service``.

    Raises:
        TypeError: No strategy is named.
        NotAuthenticated: By the hook, for whoever proves nothing.
        RuntimeError: By the hook, where it is neither a before nor an around hook.
    """
    allowed = strategies_of("authenticate", names, strategies)

    async def check_caller(context: HookContext, next: Any = None) -> None:
        if context.type not in {"before", "around"}:
            raise RuntimeError("authenticate(...) is a before or an around hook")
        await identify(context.app, context.params, service, allowed)
        if next is not None:
            await next()

    return note(check_caller, strategies=allowed, kinds=("before", "around"))


@maker('hash_password("password")')
def hash_password(field: str, *, service: str | None = None, strategy: str = "local") -> Hook:
    """Return a hook that replaces a password in the data of a call by its hash.

    Args:
        field: The property that holds the password.
        service: The path of the authentication service; None for the default one.
        strategy: The name of the `LocalStrategy` that hashes.

    It belongs behind the hooks that check the data, since a hash takes time.

    Raises:
        ValueError: The field lies inside another property.
        BadRequest: By the hook, for what can be no password.
        TooManyRequests: By the hook, where an address sets too many passwords.
        Unavailable: By the hook, where too many wait to be hashed.
        MethodNotAllowed: By the hook, for a list where the service takes none.
    """
    check_property(field, f"hash_password({field!r})")
    resolve = password_hash(strategy, service=service)

    async def hash_data(context: HookContext, next: Any = None) -> None:
        data = context.data
        if isinstance(data, list):
            _check_several(context)  # before the work, not after it
            context.data = [await hashed(each, context) for each in data]
        else:
            context.data = await hashed(data, context)
        if next is not None:
            await next()

    async def hashed(data: Any, context: HookContext) -> Any:
        if not isinstance(data, Mapping):
            return data
        changed = dict(data)
        if field in data:
            changed[field] = await resolve(data[field], data, context)
        for name in _operators_on(field, data):
            if name != "$set":
                raise BadRequest(f"A password can be set, but {name} is not for it")
            value = await resolve(data[name][field], data, context)
            changed[name] = {**data[name], field: value}
        return changed

    return note(hash_data, kinds=("before", "around"))


def _operators_on(field: str, data: Mapping[str, Any]) -> list[str]:
    """Return the update operators in data that touch a field, where a service takes such data."""
    return [
        name
        for name, value in data.items()
        if name[:1] == "$" and isinstance(value, Mapping) and field in value
    ]


def _check_several(context: HookContext) -> None:
    """Refuse a list that the service would refuse, since each hash takes a tenth of a second."""
    service = context.service.service
    options_for: Callable[[Params], Any] | None = getattr(service, "options_for", None)
    if options_for is not None and context.method not in options_for(context.params).multi:
        raise MethodNotAllowed(f"Can not {context.method} multiple entries")


@maker('password_hash("local")')
def password_hash(
    strategy: str = "local", *, service: str | None = None
) -> Callable[[Any, Any, HookContext], Coroutine[Any, Any, Any]]:
    """Return a property resolver that replaces a password by its hash.

    Args:
        strategy: The name of the `LocalStrategy` that hashes.
        service: The path of the authentication service; None for the default one.

    Raises:
        BadRequest: By the resolver, for what can be no password.
        TooManyRequests: By the resolver, where an address sets too many passwords.
        Unavailable: By the resolver, where too many wait to be hashed.
    """

    async def resolve(value: Any, _: Any, context: HookContext) -> Any:
        if value is UNSET:
            return value
        if not isinstance(value, HashedPassword):
            local: Any = authentication_at(context.app, service).strategy(strategy)
            value = await local.hash_password(value, context.params)
        return str(value)

    return resolve


@maker('hide_taken("email")')
def hide_taken(*fields: str) -> Hook:
    """Return an around hook for `create` of users, with which nobody learns who is registered.

    A registration from outside that meets a unique value which is taken (a `Conflict`) is answered
    like one that succeeds: by the fields named here, as they were sent, and nothing else. Hooks and
    listeners of the application see what was stored; where a value was taken, nothing is, and there
    is no event. It takes one record at a time. It runs around all other hooks of the service, so
    that none of these, such as a resolver that needs the id, can make a difference.

    Args:
        fields: Properties of the data that the answer has. None of them may be a secret.

    Raises:
        TypeError: No field is named.
        BadRequest: By the hook, for data that is no object.

    Example:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App()
        >>> app.use("users", MemoryService(unique=["email"]))
        >>> hooks = app.service("users").hooks(around={"create": [hide_taken("email")]})
    """
    if not fields:
        raise TypeError("hide_taken() needs the names of the fields to answer: hide_taken('email')")
    for field in fields:
        check_property(field, f"hide_taken({field!r})")

    async def hide(context: HookContext, next: Any) -> None:
        if context.params.provider is None or context.method != "create":
            await next()
            return
        sent = context.data
        if not isinstance(sent, Mapping):
            raise BadRequest("Register one user at a time")
        answer = {name: sent[name] for name in fields if name in sent}
        try:
            await next()
        except Conflict:
            context.result, context.event = dict(answer), None
        context.http.clear()
        context.dispatch = answer

    return note(hide, kinds=("around",), outermost=True)
