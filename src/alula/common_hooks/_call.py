"""What the hooks of this package share: who calls, the query and data of a call, its record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Any, Final

from alula._context import HookContext
from alula._service import ServiceHandle
from alula._service_object import check_multi
from alula.adapters._related import keep_transaction
from alula.errors import BadRequest, NotAuthenticated
from alula.outgoing import as_mapping
from alula.query._query import as_list
from alula.types import STANDARD_METHODS

__all__ = [
    "change_data",
    "check_properties",
    "has_operators",
    "narrow",
    "own_service",
    "split_changes",
    "stored_properties",
    "stored_record",
    "user_id",
    "user_of",
]

_CHANGES: Final = frozenset({"update", "patch"})  # their data is never a list
_OF_PAGES: Final = ("$select", "$limit", "$skip", "$sort")


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
    if not isinstance(user, Mapping):
        raise NotAuthenticated(
            f"{hook} needs params.{entity}, and nobody is signed in; sign in, and register {hook}"
            f" behind authenticate(...). For users of another name: {hook}(..., entity='account')"
        )
    return user


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
    is_list = context.method not in _CHANGES and isinstance(data, list | tuple)
    if is_list and context.method in STANDARD_METHODS:
        check_multi(context)
    records: Any = data if is_list else (data,)
    for record in records:
        if type(record) is not dict and not isinstance(record, Mapping):
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
    kept: dict[str, Any] = {}
    changed: list[str] = []
    for key, value in data.items():
        if str(key)[:1] != "$" or not isinstance(value, Mapping):
            name = str(key).partition(".")[0]
            if name in names:
                changed.append(name)
            else:
                kept[key] = value
            continue
        operands = {}
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
    return any(str(key)[:1] == "$" for key in data)


async def stored_record(context: HookContext) -> Mapping[str, Any]:
    """Return the record that a call is about to change, by an internal `get` with its query.

    Raises:
        NotFound: There is none, or it does not meet the query of the call.
        Exception: What hooks of `get` raise.
    """
    params = context.params.copy()
    params.query = copy(params.query)
    for name in _OF_PAGES:
        params.query.pop(name, None)
    params.provider = None
    keep_transaction(params)
    inner = HookContext(context.app, context.service, "get", params, context.id)
    await context.service.run(inner)
    record = as_mapping(inner.result)
    return record if isinstance(record, Mapping) else {}


async def stored_properties(context: HookContext, names: Iterable[str]) -> dict[str, Any]:
    """Return the stored values of properties that an `update` would replace.

    There are none if its data consists of update operators, which replace nothing.

    Raises:
        NotFound: As `stored_record`.
    """
    if has_operators(context.data):
        return {}
    record = await stored_record(context)
    return {name: record[name] for name in names if name in record}


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
