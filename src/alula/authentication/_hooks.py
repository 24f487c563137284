"""The hooks of authentication: who is calling, passwords on their way in, and hidden fields."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeAlias
from weakref import WeakSet

from alula._context import HookContext, Params
from alula._identity import authentication_at, identify, strategies_of
from alula.authentication._entities import check_property, without
from alula.authentication._passwords import HashedPassword
from alula.errors import BadRequest, Conflict, MethodNotAllowed
from alula.hooks import annotate_hook, hook_factory
from alula.outgoing import RedactedRecord, map_records, public_part, without_properties
from alula.types import STANDARD_METHODS, UNSET

__all__ = ["authenticate", "hash_password", "hide_taken", "password_hash", "protect"]

Hook: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


@hook_factory('authenticate("jwt")')
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

    return annotate_hook(check_caller, strategies=allowed, kinds=("before", "around"))


@hook_factory('hash_password("password")')
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

    return annotate_hook(hash_data, kinds=("before", "around"))


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


@hook_factory('password_hash("local")')
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


@hook_factory('hide_taken("email")')
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

    Examples:
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

    return annotate_hook(hide, kinds=("around",), outermost=True)


@hook_factory('protect("password")')
def protect(*fields: str) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a hook that keeps fields of a service's records from leaving.

    Nobody outside can find their values out, either: a query from outside that mentions such a
    field is a 400, whatever it asks of it, at any depth of ``$or`` and the like. ``$select`` may
    name it; the record comes without. Internal calls get whole records. These are bound to what
    may leave of them, so that nothing hidden leaves with what they become a part of. In results of
    custom methods the fields are left out at any depth, since records may be anywhere in these.

    A hook that itself adds such a field to the query, to keep callers to their own records, is a
    before hook, or an around hook that is registered after this one.

    Args:
        fields: Names of properties.

    Raises:
        TypeError: No field is named.
        ValueError: A field lies inside another property.
        BadRequest: By the hook, for such a query.
        RuntimeError: By the hook, where it is neither an after nor an around hook.
    """
    hidden = _names_of(fields)

    checked: WeakSet[HookContext] = WeakSet()

    async def check(context: HookContext, next: Any) -> None:
        if context.params.get("provider") is not None:
            _check_asked(context, hidden)
            checked.add(context)
        await next()

    async def hide(context: HookContext, next: Any = None) -> None:
        external = context.params.get("provider") is not None
        if next is None and context.type != "after":
            raise RuntimeError("protect(...) is an after or an around hook")
        if external and context not in checked:  # as an after hook it was, unless it is wrapped
            _check_asked(context, hidden)
        if next is not None:
            await next()
        result, method = context.result, context.method
        visible = result if context.dispatch is UNSET else context.dispatch
        shown = shown_of_record if method in STANDARD_METHODS else shown_of_anything
        context.dispatch = map_records(visible, method, shown, shown)
        if external:
            context.result = context.dispatch  # events too are for those outside
            return

        def guarded(record: Any) -> Any:
            if not isinstance(record, Mapping):
                return record
            return RedactedRecord(record, shown(record), getattr(record, "redacted_by", None))

        context.result = map_records(result, method, guarded, shown, redact=True)

    def shown_of_record(record: Any) -> Any:
        return without(public_part(record), hidden)

    def shown_of_anything(result: Any) -> Any:
        return without_properties(public_part(result), hidden)

    return annotate_hook(hide, kinds=("after", "around"), around=check)


def _names_of(fields: tuple[str, ...]) -> frozenset[str]:
    if not fields:
        raise TypeError("protect() needs the names of the fields to hide: protect('password')")
    for field in fields:
        check_property(field, f"protect({field!r})")
    return frozenset(fields)


def _check_asked(context: HookContext, hidden: frozenset[str]) -> None:
    """Refuse a call whose answers would show a hidden field by and by.

    Raises:
        BadRequest: Its query mentions one, or its data copies one with an operator.
    """
    query, data = context.params["query"], context.data
    name = _mention_in(query, hidden)
    if name is None and isinstance(data, Mapping) and isinstance(data.get("$rename"), Mapping):
        name = _mention_in(data["$rename"], hidden)
    if name is not None:
        raise BadRequest(
            f"Invalid query: {name} cannot be asked for, since it is hidden; remove it from the"
            " query"
        )


def _mention_in(query: Any, hidden: frozenset[str], *, names: bool = False) -> str | None:
    """Return the first name of a hidden field in a query, None where there is none.

    Args:
        query: A query, or what stands in it below a name that begins with ``$``.
        hidden: The fields.
        names: Whether texts are names of fields here, too.
    """
    waiting = [(query, names)]  # a loop and no recursion: the depth is what somebody sent
    while waiting:
        value, names = waiting.pop()
        if isinstance(value, Mapping):
            for name, inner in value.items():
                text = str(name)
                if text.partition(".")[0] in hidden:
                    return text
                if text[:1] == "$":
                    if text != "$select":
                        waiting.append((inner, text == "$sort"))
                elif names or text.isdecimal():  # an object with index keys stands for a list
                    waiting.append((inner, names))
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += ((each, names) for each in value)
        elif names and isinstance(value, str) and value.lstrip("+-").partition(".")[0] in hidden:
            return value
    return None
