"""Who may do what with which records: owners and roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from alula._context import HookContext
from alula.common_hooks._call import (
    change_data,
    check_properties,
    has_operators,
    keep_stored,
    narrow,
    split_changes,
    user_id,
    user_of,
    write_kept,
)
from alula.errors import BadRequest, Forbidden
from alula.hooks import Hook, Next, annotate_hook, hook_factory
from alula.types import COLLECTION_TYPES, METHODS_WITHOUT_DATA

__all__ = ["allow", "only_own", "set_owner"]

_KINDS: Final = ("before", "around")
_WITH_DATA: Final = frozenset({"create", "update", "patch"})
_BY_QUERY: Final = frozenset({"find", "get", "update", "patch", "remove"})


@hook_factory('only_own("userId")')
def only_own(field: str = "userId", *, of: str = "id", entity: str = "user") -> Hook:
    """Return a hook that restricts clients to the records of the signed-in user.

    It adds a condition to the query of `find`, `get`, `update`, `patch` and `remove`, so the
    database tests the owner in the statement that reads or changes the record. Records of others
    are a `NotFound`. What a client asks for can only narrow the query further. Calls of the
    application itself pass, and so does `create`; see `set_owner`.

    Register it behind `authenticate`, and as a before hook where a schema checks queries.

    Args:
        field: The property of the records that has the id of their owner.
        of: The property of the user that has the id: ``"_id"`` for users in MongoDB.
        entity: The name of the user in params, which is the ``entity`` of the authentication
            service: ``"account"`` for ``params.account``.

    Raises:
        TypeError: A name is not a string.
        ValueError: A name is not that of a property.
        NotAuthenticated: By the hook: a client calls, and nobody is signed in.
        RuntimeError: By the hook: the user has no such id, or the method is a custom one, whose
            records no query restricts.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.authentication import authenticate
        >>> app = App().use("notes", MemoryService())
        >>> notes = app.service("notes").hooks(
        ...     around=[authenticate("jwt"), set_owner("userId")], before=[only_own("userId")]
        ... )
    """
    check_properties("only_own", field, of, entity)

    def restrict(context: HookContext, next: Next | None = None) -> object:
        if context.params.provider is not None:
            if context.method in _BY_QUERY:
                narrow(context, field, user_id(context, "only_own", of, entity))
            elif context.method != "create":
                raise RuntimeError(
                    f"only_own cannot restrict the custom method `{context.method}` of"
                    f" {context.service!r}; register it for methods that have a query"
                )
        return None if next is None else next()

    return annotate_hook(restrict, kinds=_KINDS, ignores=("create",), needs_user="only_own")


@hook_factory('set_owner("userId")')
def set_owner(
    field: str = "userId", *, of: str = "id", entity: str = "user", refuse: bool = False
) -> Hook:
    """Return a hook that makes the signed-in user the owner of what a client creates.

    The owner stays: clients cannot change it by `patch`, also not by update operators, and an
    `update` keeps the stored one, even if another call sets it at the same time. Calls of the
    application itself may set any owner; if they have a user and name no owner in `create`, it is
    that user.

    Register it behind `authenticate`, and as an around hook where a schema requires the property:
    its checks run behind all around hooks.

    Args:
        field: The property that gets the id of the user.
        of: The property of the user that has the id: ``"_id"`` for users in MongoDB.
        entity: As for `only_own`.
        refuse: Whether data of a client that names the property is a `BadRequest`. By default,
            the client's value is ignored.

    Raises:
        TypeError: A name is not a string.
        ValueError: A name is not that of a property.
        NotAuthenticated: By the hook: a client calls, and nobody is signed in.
        BadRequest: By the hook: the data is not an object, or names the property.
        Conflict: By the hook: other calls change the owner again and again during an `update`.
        RuntimeError: By the hook: the user has no such id.

    Examples:
        >>> import asyncio
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("notes", MemoryService(start_id=1))
        >>> notes = app.service("notes").hooks(before=[set_owner("userId")])
        >>> asyncio.run(notes.create({"text": "Hello"}, provider="rest", user={"id": 7}))
        {'text': 'Hello', 'userId': 7, 'id': 1}
    """
    check_properties("set_owner", field, of, entity)
    names = (field,)

    async def own(context: HookContext, next: Next | None = None) -> None:
        method, params = context.method, context.params
        if method not in _WITH_DATA:
            pass
        elif params.provider is None:
            if method == "create" and params.get(entity) is not None:
                owner = user_id(context, "set_owner", of, entity)
                change_data(context, lambda data: {field: owner, **data})
        elif method == "create":
            owner = user_id(context, "set_owner", of, entity)
            if refuse:
                change_data(context, without)
            change_data(context, lambda data: {**data, field: owner})
        else:
            owner = user_id(context, "set_owner", of, entity)
            change_data(context, without)
            if method == "update":
                keep_stored(context, names)
                if not has_operators(context.data):  # for schemas; the stored owner replaces it
                    context.data = {**context.data, field: owner}
        if next is not None:
            await next()

    def without(data: Mapping[str, Any]) -> Mapping[str, Any]:
        kept, changed = split_changes(data, names)
        if changed and refuse:
            raise BadRequest(
                f"The data names {field}, which the server sets; leave it out",
                errors={field: "is set by the server"},
            )
        return kept

    return annotate_hook(
        own,
        kinds=_KINDS,
        sets=names,
        ignores=METHODS_WITHOUT_DATA,
        needs_user="set_owner",
        completes={"update": write_kept},
    )


@hook_factory('allow("admin")')
def allow(*roles: str, field: str = "roles", entity: str = "user") -> Hook:
    """Return a hook that refuses clients whose user has none of these roles.

    Calls of the application itself pass. Register it behind `authenticate`.

    Args:
        roles: The roles, of which a user needs one.
        field: The property of the user that has its role, or a list of its roles.
        entity: As for `only_own`.

    Raises:
        TypeError: There are no roles, or a name is not a string.
        ValueError: ``field`` or ``entity`` is not the name of a property.
        NotAuthenticated: By the hook: a client calls, and nobody is signed in.
        Forbidden: By the hook: the user has none of the roles.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> app = App().use("news", MemoryService())
        >>> news = app.service("news").hooks(before={"create": [allow("editor", field="role")]})
    """
    if not roles or not all(isinstance(role, str) for role in roles):
        raise TypeError(f"allow takes the names of roles, one by one: allow('admin'), not {roles}")
    check_properties("allow", field, entity)
    allowed = frozenset(roles)

    def check(context: HookContext, next: Next | None = None) -> object:
        if context.params.provider is not None:
            given = user_of(context, "allow", entity).get(field, ())
            owned = given if isinstance(given, COLLECTION_TYPES) else (given,)
            if not any(isinstance(role, str) and role in allowed for role in owned):
                raise Forbidden(f"Your role does not allow `{context.method}` of {context.path}")
        return None if next is None else next()

    return annotate_hook(check, kinds=_KINDS, needs_user="allow")
