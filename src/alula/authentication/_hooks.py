"""The hooks of authentication: check the caller, hash passwords, and hide fields."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from itertools import product
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from alula._context import HookContext
from alula._identity import (
    Application,
    authentication_at,
    authentication_lookup,
    check_scope,
    default_scope,
    find_authentication,
    identify,
    scope_option,
    strategies_of,
)
from alula._item_stream import change_each, is_stream
from alula._service import ServiceHandle
from alula._service_object import check_multi
from alula.authentication._entities import check_property, without
from alula.authentication._passwords import HashedPassword
from alula.errors import BadRequest, Conflict, FrameworkError
from alula.hooks import HookMetadata, Next, annotate_hook, hook_factory, hook_metadata
from alula.outgoing import public_part
from alula.outgoing._redaction import (
    ItemCall,
    check_hidden,
    records_in_error,
    redact_error,
    redact_result,
    without_properties,
)
from alula.types import (
    METHODS_WITHOUT_DATA,
    STANDARD_METHODS,
    UNSET,
    is_list,
    is_mapping,
)

__all__ = ["authenticate", "check_hooks", "hash_password", "hide_taken", "password_hash", "protect"]

Hook: TypeAlias = Callable[..., Coroutine[Any, Any, None]]

_HASHES: Final = "hashes of hash_password"
"""The attribute of a context with the hashes of its call. No hook sets one of such a name."""


@hook_factory('authenticate("jwt")')
def authenticate(
    *names: str,
    service: str | None = None,
    strategies: Iterable[str] | None = None,
    optional: bool = False,
    scope: str | None = None,
) -> Hook:
    """Return a hook that checks the credentials of a call: a before or an around hook.

    It sets ``params.user``, ``params.authentication`` and ``params.authenticated``. Internal calls
    pass without credentials.

    An API key has to have a scope. Who signs in has all scopes.

    Args:
        names: Names of the allowed strategies: ``authenticate("jwt")``.
        service: The path of the authentication service; None for the default one.
        strategies: The names, for use with ``service``.
        optional: Whether clients may call without credentials. Such a call has no
            ``params.user``. Wrong credentials are refused all the same.
        scope: The scope that an API key needs: ``"reports:read"``. None for the path of the service
            with ``:read`` for `find` and `get`, and ``:write`` for all other methods.

    Raises:
        TypeError: No strategy is named, or the scope is not one.
        NotAuthenticated: By the hook: the call has no valid credentials.
        Forbidden: By the hook: an API key lacks the scope, or its strategy is not named.
        RuntimeError: By the hook: it is neither a before nor an around hook.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import authenticate
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(around=[authenticate("jwt")])
    """
    allowed = strategies_of("authenticate", names, strategies)
    scope_option("authenticate", scope)
    authentication_of = authentication_lookup(service)

    async def check_caller(context: HookContext, next: Next | None = None) -> None:
        if context.type not in {"before", "around"}:
            raise RuntimeError("authenticate(...) is a before or an around hook")
        service, params = authentication_of(context.app), context.params
        await identify(service, params, allowed, optional=optional)
        if getattr(service, "scoped_strategies", None):  # most applications have no keys
            check_scope(service, params, scope or default_scope(context.path, context.method))
        if next is not None:
            await next()

    def is_internal(context: HookContext) -> bool:
        params = context.params
        if params.provider is not None or params.authentication is not None:
            return False
        authentication_of(context.app)  # a missing service is an error in every call
        return True

    return annotate_hook(
        check_caller,
        is_idle=is_internal,
        strategies=allowed,
        authentication=service,
        is_optional=optional,
        scope=scope,
        kinds=("before", "around"),
    )


def check_hooks(authentication: Any, app: Application) -> None:
    """Check that a service has all strategies that hooks of the application want from it.

    Args:
        authentication: The service.
        app: The application.

    Raises:
        LookupError: One is not registered.
        ValueError: A hook names a scope, but no strategy whose credentials have scopes.
    """
    for handle in app.services.values():
        if isinstance(handle.service, ServiceHandle):  # of another application
            continue
        tables = (handle.app.hook_table, handle.hook_table)
        for table, method, kind in product(tables, handle.hook_methods(), ("around", "before")):
            for metadata in map(hook_metadata, table.of(kind, method)):
                if find_authentication(app, metadata.get("authentication")) is not authentication:
                    continue
                for name in metadata.get("strategies", ()):
                    try:
                        authentication.strategy(name)
                    except LookupError as error:
                        raise LookupError(
                            f"authenticate({name!r}) of {handle!r}: {error}"
                        ) from None
                _check_scope_has_effect(authentication, metadata, handle)


def _check_scope_has_effect(
    authentication: Any, metadata: HookMetadata, handle: ServiceHandle
) -> None:
    names, scope = metadata.get("strategies", ()), metadata.get("scope")
    if scope is not None and authentication.scoped_strategies.isdisjoint(names):
        raise ValueError(
            f"authenticate({', '.join(map(repr, names))}, scope={scope!r}) of {handle!r}: none of"
            " these strategies has scopes; name that of API keys, or leave the scope out"
        )


@hook_factory('hash_password("password")')
def hash_password(field: str, *, service: str | None = None, strategy: str = "local") -> Hook:
    """Return a hook that replaces a password in the data of a call with its hash.

    Register it after the hooks that check the data, since a hash takes time.

    Args:
        field: The property that holds the password.
        service: The path of the authentication service; None for the default one.
        strategy: The name of the `LocalStrategy` that hashes.

    Raises:
        ValueError: The field is inside another property.
        BadRequest: By the hook: it is not a string, empty or too long.
        TooManyRequests: By the hook: there are too many new passwords from this address.
        Unavailable: By the hook: too many passwords wait to be hashed.
        MethodNotAllowed: By the hook: the data is a list, which the service does not accept.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import hash_password
        >>> app = App().use("users", MemoryService())
        >>> before = {"create": [hash_password("password")], "patch": [hash_password("password")]}
        >>> users = app.service("users").hooks(before=before)
    """
    check_property(field, f"hash_password({field!r})")
    resolve = _hash_of(strategy, service)

    async def hash_data(context: HookContext, next: Next | None = None) -> None:
        data = context.data
        if is_list(data):
            check_multi(context)  # each hash takes a tenth of a second
            context.data = [await hashed(record, context) for record in data]
        else:
            context.data = await hashed(data, context)
        if next is not None:
            await next()

    async def hashed(data: object, context: HookContext) -> object:
        if not is_mapping(data):
            return data
        changed = dict(data)
        if field in data:
            changed[field] = await resolve(data[field], data, context)
        _check_whole(field, data)
        for name, operand in data.items():  # update operators, where a service takes such data
            if name[:1] != "$" or not is_mapping(operand):
                continue
            # `$rename` writes to the property that its operand names. So a client could store a
            # hash with parameters of its choice in another property, and make it the password.
            written = [*operand, *operand.values()] if name == "$rename" else operand
            _check_whole(field, written)
            if field in written:
                if name != "$set":
                    raise BadRequest(f"A password can be set, but not changed by {name}")
                changed[name] = {**operand, field: await resolve(operand[field], data, context)}
        return changed

    return annotate_hook(hash_data, kinds=("before", "around"), ignores=METHODS_WITHOUT_DATA)


@hook_factory('password_hash("local")')
def password_hash(
    strategy: str = "local", *, service: str | None = None
) -> Callable[[object, object, HookContext], Coroutine[Any, Any, object]]:
    """Return a property resolver that replaces a password with its hash.

    Your own code may create a user without a password, and so may a sign-in with others: None stays
    None. Clients may not.

    Args:
        strategy: The name of the `LocalStrategy` that hashes.
        service: The path of the authentication service; None for the default one.

    Raises:
        BadRequest: By the resolver: it is not a string, empty or too long.
        TooManyRequests: By the resolver: there are too many new passwords from this address.
        Unavailable: By the resolver: too many passwords wait to be hashed.

    Examples:
        >>> from alula.authentication import password_hash
        >>> from alula.schema import resolve
        >>> resolver = resolve({"password": password_hash("local")})
    """
    hash_of = _hash_of(strategy, service)

    async def resolve(value: object, data: object, context: HookContext) -> object:
        is_own = context.params.provider is None and context.method == "create"
        if value is None and is_own:  # by the default of a schema
            return None
        return await hash_of(value, data, context)

    return resolve


def _hash_of(
    strategy: str, service: str | None
) -> Callable[[object, object, HookContext], Coroutine[Any, Any, object]]:
    """Return a property resolver that replaces each value that is set with a hash."""

    async def resolve(value: object, _: object, context: HookContext) -> object:
        if value is UNSET:
            return value
        # An around hook may run the rest of the call a second time, with the hash in its data. If
        # that were hashed again, the user could not sign in. A client cannot send this text as a
        # password, because its salt is new.
        made: set[str] | None = getattr(context, _HASHES, None)
        if made is None:
            made = set()
            setattr(context, _HASHES, made)
        if isinstance(value, str) and value in made:
            return value
        if not isinstance(value, HashedPassword):
            local: Any = authentication_at(context.app, service).strategy(strategy)
            value = await local.hash_password(value, context.params)
        text = str(value)  # a `HashedPassword` is not a type that databases know
        made.add(text)
        return text

    return resolve


@hook_factory('hide_taken("email")')
def hide_taken(*fields: str) -> Hook:
    """Return an around hook for `create` of users that hides who is already registered.

    A client's registration with a unique value that is taken (a `Conflict`) gets the same response
    as one that succeeds: the fields named here, as they were sent, and nothing else. Hooks and
    listeners of the application see what was stored; if a value was taken, nothing is stored and
    no event is emitted. One record can be created at a time. The hook runs outside all other hooks
    of the service, so that none of them, such as a resolver that needs the id, makes a difference.

    Args:
        fields: Properties of the data that the response has. They must not be secrets.

    Raises:
        TypeError: No field is named.
        BadRequest: By the hook: the data is not an object.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import hide_taken
        >>> app = App().use("users", MemoryService(unique=["email"]))
        >>> users = app.service("users").hooks(around={"create": [hide_taken("email")]})
    """
    _check_fields("hide_taken", fields, "email")

    async def hide(context: HookContext, next: Next) -> None:
        if context.params.provider is None or context.method != "create":
            await next()
            return
        sent = context.data
        if not is_mapping(sent):
            raise BadRequest("Register one user at a time")
        response = {name: sent[name] for name in fields if name in sent}
        try:
            await next()
        except Conflict:
            context.result, context.event = dict(response), None
        context.http.clear()  # status and headers could differ, such as a `Location`
        context.dispatch = response

    return annotate_hook(hide, kinds=("around",), outermost=True)


@hook_factory('protect("password")')
def protect(*fields: str) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a hook that hides fields of a service's records from clients.

    Clients cannot query by them, either: a query that names a hidden field is a 400, at any depth
    of ``$or`` and the like, since comparisons would let clients bisect its value. ``$select`` may
    name it; the record comes without it. Internal calls get whole records. Where such a record
    becomes part of a response, clients get its redacted view. In results of custom methods the
    fields are removed at any depth, since records may be anywhere in them.

    A hook that adds such a field to the query itself, to restrict callers to their own records, is
    a before hook, or an around hook that is registered after this one.

    Args:
        fields: Names of properties.

    Raises:
        TypeError: No field is named.
        ValueError: A field is inside another property.
        BadRequest: By the hook: the query of a client names a hidden field.
        RuntimeError: By the hook: it is neither an after nor an around hook.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import protect
        >>> app = App().use("users", MemoryService())
        >>> users = app.service("users").hooks(around=[protect("password")])
    """
    _check_fields("protect", fields, "password")
    hidden = frozenset(fields)
    # Calls whose query was checked before other hooks, which may add hidden fields to it.
    checked: WeakSet[HookContext] = WeakSet()

    def view(record: object) -> Any:
        return without(public_part(record), hidden)

    def view_of_custom(result: object) -> Any:
        return without_properties(public_part(result), hidden)

    def view_in(context: HookContext) -> Callable[[Any], Any]:
        return view if context.method in STANDARD_METHODS else view_of_custom

    async def run(context: HookContext, next: Next) -> None:
        check_hidden(context, hidden)
        try:
            await next()
        except FrameworkError as error:
            records = records_in_error(error, context)
            redact_error(error, records, map(view_in(context), records))
            raise

    async def guard(context: HookContext, next: Next) -> None:
        checked.add(context)
        await run(context, next)

    async def hide(context: HookContext, next: Next | None = None) -> None:
        if next is not None:
            await run(context, next)
        elif context.type != "after":
            raise RuntimeError("protect(...) is an after or an around hook")
        elif context not in checked:  # a hook that is wrapped has no `guard` around it
            check_hidden(context, hidden)
        shown = view_in(context)
        if is_stream(context.result):
            await change_each(context, partial(_redacted_item, context, shown))
        else:
            redact_result(context, shown, shown)

    return annotate_hook(hide, protects=fields, kinds=("after", "around"), around=guard)


def _redacted_item(context: HookContext, view: Callable[[Any], Any], item: object) -> Any:
    call = ItemCall(context, item)
    redact_result(call, view, view)
    return call.item


def _check_fields(function: str, fields: tuple[str, ...], example: str) -> None:
    if not fields:
        raise TypeError(f"{function}() needs names of fields: {function}({example!r})")
    for field in fields:
        check_property(field, f"{function}({field!r})")


def _check_whole(field: str, names: Iterable[object]) -> None:
    """Refuse names that lead into a password.

    The errors of databases for such names contain the stored hash, which would be logged.

    Raises:
        BadRequest: There is one.
    """
    inside = f"{field}."
    if any(isinstance(name, str) and name.startswith(inside) for name in names):
        raise BadRequest("A password is a text without parts; set it as a whole")
