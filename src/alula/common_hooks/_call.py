"""What the hooks of this package share: who calls, the query and data of a call, its record.

An `update` replaces a record, so what a hook keeps of it is read first. Others may change it in
between. `write_kept` therefore writes under the condition that the stored values are still the
ones that were read. If they are not, it reads again, a few times, and then refuses with a 409.

A hook never reads the stored record where it is registered. The query there is still what the
client sent, without the conditions of later hooks, and the answer would tell about records that
the client cannot reach. Reads happen directly around the method, behind all these hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any, Final

from alula._context import HookContext, Params
from alula._service import ServiceHandle
from alula._service_object import check_multi
from alula.adapters._related import keep_transaction
from alula.errors import BadRequest, Conflict, NotAuthenticated, NotFound
from alula.hooks import Next
from alula.outgoing._encoders import as_mapping
from alula.query._grammar import as_list
from alula.types import STANDARD_METHODS, UNSET, is_array, is_mapping

__all__ = [
    "change_data",
    "check_properties",
    "has_operators",
    "keep_stored",
    "narrow",
    "own_service",
    "split_changes",
    "stored_record",
    "user_id",
    "user_of",
    "write_kept",
]

_CHANGES: Final = frozenset({"update", "patch"})  # their data is never a list
_OF_PAGES: Final = ("$select", "$limit", "$skip", "$sort")
_MOST_WRITES: Final = 5  # of one update whose kept properties others change all the time


class _Kept:
    """What an `update` keeps of the stored record.

    Attributes:
        names: The properties.
        checks: Functions of the stored values that raise where these refuse the update.
        is_writing: Whether `write_kept` runs for the call.
    """

    __slots__ = ("checks", "is_writing", "names")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.checks: dict[tuple[str, ...], Callable[[Mapping[str, Any]], None]] = {}
        self.is_writing = False

    def check(self, stored: Mapping[str, Any]) -> None:
        """Raise what a check raises for stored values."""
        for check in self.checks.values():
            check(stored)


# In the attributes of the context, where no name of a hook is like it. A `WeakKeyDictionary` takes
# 0.8 µs more for each update.
_KEPT: Final = "kept by common_hooks"


def user_of(context: HookContext, hook: str, entity: str) -> Mapping[str, Any]:
    """Return the signed-in user.

    Args:
        context: The call.
        hook: The name of the hook that needs the user, for the message.
        entity: The name of the user in params.

    Raises:
        NotAuthenticated: There is none.
    """
    user = context.params.get(entity)
    if type(user) is not dict and not is_mapping(user):  # the first test saves 0.2 µs
        raise NotAuthenticated(
            f"{hook} needs params.{entity}, and nobody is signed in; sign in, and register {hook}"
            f" behind authenticate(...). For users of another name: {hook}(..., entity='account')"
        )
    return user  # pyright: ignore[reportUnknownVariableType]  # of any values


def user_id(context: HookContext, hook: str, of: str, entity: str) -> Any:
    """Return the id of the signed-in user.

    Args:
        context: The call.
        hook: The name of the hook that needs it, for messages.
        of: The property of the user that has the id.
        entity: The name of the user in params.

    Raises:
        NotAuthenticated: Nobody is signed in.
        RuntimeError: The user has no such property. None is not an id: records without an owner
            would belong to such users.
    """
    value = user_of(context, hook, entity).get(of)
    if value is None:
        raise RuntimeError(
            f"{hook}: params.{entity} has no {of!r}; name the property of users that has their id:"
            f' {hook}(..., of="_id")'
        )
    return value


def narrow(context: HookContext, field: str, value: object) -> None:
    """Add a condition to the query of a call; what the caller asks for can only narrow it further.

    Raises:
        BadRequest: The ``$and`` of the caller is not a list.
    """
    query = context.params.query
    if field not in query:
        query[field] = value
    elif query[field] is not value:  # a call that is tried again has the condition already
        others = as_list(query.get("$and", []))
        if others is None:
            raise BadRequest("Invalid value for $and: expected a list of queries")
        query["$and"] = [*others, {field: value}]


def change_data(
    context: HookContext, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> None:
    """Replace the data of a call, or each record in a list, by what a function returns for it.

    Raises:
        BadRequest: A record is not an object.
        MethodNotAllowed: The data is a list, and the service does not accept lists.
    """
    data = context.data
    if type(data) is dict:  # nearly all data
        context.data = change(data)  # pyright: ignore[reportUnknownArgumentType]  # of any values
        return
    is_list = context.method not in _CHANGES and is_array(data)
    if is_list and context.method in STANDARD_METHODS:
        check_multi(context)
    records: Any = data if is_list else (data,)
    for record in records:
        if not is_mapping(record):
            raise BadRequest(f"The data of {context.method} must be an object")
    changed = [change(record) for record in records]
    context.data = changed if is_list else changed[0]


def split_changes(
    data: Mapping[str, Any], names: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the data of update or patch without what changes some properties, and their names.

    Dotted names (``owner.id``) and update operators (``{"$inc": {"votes": 1}}``) change them, too.

    Args:
        data: The data.
        names: The properties.
    """
    text = _joined_keys(data)
    if "$" not in text and "." not in text:  # names alone, as nearly all data has
        if not any(map(data.__contains__, names)):
            return {**data}, []
        named = [name for name in data if name in names]
        return {name: value for name, value in data.items() if name not in names}, named
    kept: dict[str, Any] = {}
    changed: list[str] = []
    for key, value in data.items():
        if str(key)[:1] != "$" or not is_mapping(value):
            name = str(key).partition(".")[0]
            if name in names:
                changed.append(name)
            else:
                kept[key] = value
            continue
        operands: dict[str, Any] = {}
        for path, operand in value.items():
            # `$rename` writes to the property that is its operand.
            paths = (path, operand) if key == "$rename" else (path,)
            outer = [str(each).partition(".")[0] for each in paths]
            hit = [name for name in outer if name in names]
            changed += hit
            if not hit:
                operands[path] = operand
        if operands or not value:
            kept[key] = operands
    return kept, changed


def has_operators(data: Mapping[str, Any]) -> bool:
    """Return whether the data of an `update` has operators: then it replaces nothing."""
    return "$" in _joined_keys(data) and any(str(key)[:1] == "$" for key in data)


def _joined_keys(data: Mapping[Any, Any]) -> str:
    """Return one text in which all special characters of the keys are; one look finds them."""
    try:
        return "".join(data)
    except TypeError:  # a key that is not text, in data of the application
        return "$."


async def stored_record(context: HookContext) -> Mapping[str, Any] | None:
    """Return the record that a call is about to change, by an internal `get` with its query.

    To be called directly around the method. There the query has the conditions of all hooks, so
    the caller learns no more than the method tells. Further out, a client could choose the query,
    and read by its answers what it cannot reach.

    Returns:
        None if there is none that meets the query. What that means is for the method to say.

    Raises:
        Exception: What hooks of `get` raise.
    """
    service: Any = context.service.service
    if isinstance(service, ServiceHandle):
        return await _of_another_application(context, service)
    inner = HookContext(context.app, context.service, "get", _reading(context), context.id)
    return await _result_of(inner, context.service)


def keep_stored(
    context: HookContext,
    names: tuple[str, ...],
    check: Callable[[Mapping[str, Any]], None] | None = None,
) -> None:
    """Keep the stored values of properties in an `update`; `write_kept` does it.

    The hook is annotated with ``completes={"update": write_kept}``. What the data has for the
    properties counts only if no record is stored, so if the service creates one by `update`.

    Args:
        context: The call.
        names: The properties.
        check: Raises for stored values that refuse the update.
    """
    kept: _Kept | None = getattr(context, _KEPT, None)
    if kept is None:
        kept = _Kept()
        setattr(context, _KEPT, kept)
    kept.names |= dict.fromkeys(names)
    if check is not None:
        kept.checks[names] = check


async def write_kept(context: HookContext, next: Next) -> None:
    """Put the stored values of what is kept into an `update`, on condition that they stay stored.

    It runs directly around the method. So it reads with the conditions of all hooks, its own
    condition passes no check of the client's query, and what it reads passes no hook of `get`.
    Update operators replace nothing, so nothing has to be kept.

    Raises:
        Conflict: Others have changed the kept properties again and again.
        NotFound: By the method: there is no such record, or none any more.
        Exception: What a check raises that was given to `keep_stored`.
    """
    kept: _Kept | None = getattr(context, _KEPT, None)
    # It runs twice where both the application and the service have such hooks.
    data = context.data
    is_due = context.result is UNSET and is_mapping(data)  # a hook may act instead of the method
    if kept is None or kept.is_writing or not is_due:
        await next()
        return
    if has_operators(data):
        kept.check({})
        await next()
        return
    query = context.params.query
    others = {name: data[name] for name in data if name not in kept.names}
    kept.is_writing = True
    try:
        for _ in range(_MOST_WRITES):
            record = await _plain_record(context)
            stored: dict[str, Any] = {}
            if record is not None:
                stored = {name: record[name] for name in kept.names if name in record}
                kept.check(stored)
                context.data = {**others, **stored}
            context.params.query = copy(query)
            for name in kept.names:
                narrow(context, name, stored.get(name))
            try:
                await next()
            except NotFound:
                if record is None:
                    raise
                context.params.query = query
            else:
                return
        raise Conflict("Other calls change this record at the same time; send the update again")
    finally:
        context.params.query = query
        kept.is_writing = False


async def _plain_record(context: HookContext) -> Mapping[str, Any] | None:
    """Return the record that an `update` is about to replace, past the hooks of `get`.

    Raises:
        RuntimeError: The service has no `get`.
    """
    service: Any = context.service.service
    if isinstance(service, ServiceHandle):
        return await _of_another_application(context, service)
    get: Any = getattr(service, "get", None)
    if not callable(get):
        raise RuntimeError(
            f"an update of {context.service!r} keeps what is stored, so the service needs a `get`;"
            " it has none"
        )
    try:
        result: Any = get(context.id, _reading(context))
        return _as_record(await result if hasattr(result, "__await__") else result)
    except NotFound:
        return None


async def _of_another_application(
    context: HookContext, service: ServiceHandle
) -> Mapping[str, Any] | None:
    """Return a record of a service that another application has.

    The hooks of that application run later than those of this one, and narrow the query further.
    So the call is one of the caller, for whom they decide.
    """
    params = _reading(context)
    params.provider = context.params.provider
    return await _result_of(HookContext(service.app, service, "get", params, context.id), service)


async def _result_of(inner: HookContext, service: ServiceHandle) -> Mapping[str, Any] | None:
    try:
        await service.run(inner)
    except NotFound:
        return None
    return _as_record(inner.result)


def _as_record(result: object) -> Mapping[str, Any]:
    record = as_mapping(result)
    return record if is_mapping(record) else {}


def _reading(context: HookContext) -> Params:
    """Return the params for a `get` of the record that a call is about to change."""
    params = context.params.copy()
    if params.query:
        for name in _OF_PAGES:
            params.query.pop(name, None)
    params.provider = None
    keep_transaction(params)
    return params


def own_service(context: HookContext, hook: str) -> Any:
    """Return the object behind the service of a call.

    Raises:
        RuntimeError: It is a service of another application, whose hooks would be skipped.
    """
    service = context.service.service
    if isinstance(service, ServiceHandle):
        raise RuntimeError(
            f"{hook} is registered for {context.service!r}, which belongs to another application;"
            " register it there"
        )
    return service


def check_properties(hook: str, *names: object) -> None:
    """Check the names of properties that a hook guards or sets.

    Raises:
        TypeError: There are none, or one is not a string.
        ValueError: One is empty, begins with ``$``, or leads into another property.
    """
    if not names:
        raise TypeError(f"{hook} takes names of properties: {hook}('text')")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{hook} takes names of properties, one by one, not {name!r}")
        if not name or name[0] == "$" or "." in name:
            raise ValueError(f"{hook}: {name!r} cannot be the name of a property")
