"""The hooks of authentication: who is calling, and passwords on their way in.

Each can stand among before hooks and among around hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeAlias

from alula.authentication.entity import check_property
from alula.authentication.passwords import HashedPassword
from alula.context import HookContext, Params
from alula.errors import BadRequest, MethodNotAllowed
from alula.hook_notes import note
from alula.identity import authentication_at, identify, strategies_of
from alula.types import UNSET

__all__ = ["authenticate", "hash_password", "password_hash"]

Hook: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


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


def hash_password(field: str, *, service: str | None = None, strategy: str = "local") -> Hook:
    """Return a hook that replaces a password in the data of a call by its hash.

    Args:
        field: The property that holds the password.
        service: The path of the authentication service; None for the default one.
        strategy: The name of the `LocalStrategy` that hashes.

    Raises:
        ValueError: The field lies inside another property.
        BadRequest: By the hook, for what can be no password.
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


def password_hash(
    strategy: str = "local", *, service: str | None = None
) -> Callable[[Any, Any, HookContext], Coroutine[Any, Any, Any]]:
    """Return a property resolver that replaces a password by its hash.

    Args:
        strategy: The name of the `LocalStrategy` that hashes.
        service: The path of the authentication service; None for the default one.

    Raises:
        BadRequest: By the resolver, for what can be no password.
    """

    async def resolve(value: Any, _: Any, context: HookContext) -> Any:
        if value is UNSET:
            return value
        if not isinstance(value, HashedPassword):
            local: Any = authentication_at(context.app, service).strategy(strategy)
            value = await local.hash_password(value)
        return str(value)

    return resolve
