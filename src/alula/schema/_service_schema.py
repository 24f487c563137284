"""A service with the schema of its records: checks, ids, dates and resolvers in one line.

Where everything runs, from the outside in: the around hooks of the application and of the service,
`authenticate` where it is a before hook, then what stands here (the check of the query, the check
of the data, the resolvers of both), all other before hooks, and the method. Resolvers know who is
calling by that, and before hooks see what is checked and resolved. Where a before hook sets the
user nevertheless, the resolvers run once more, in front of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from alula._context import HookContext
from alula._service_object import ServiceBundle
from alula.hooks import annotate_hook
from alula.query import ValidatedQuery
from alula.schema._call_query import query_of, set_query
from alula.schema._hidden_and_queryable import names_in
from alula.schema._records import Extensions, Records, records_of, without_names, write_only
from alula.schema._resolvers.incoming_hooks import (
    Hook,
    Resolvers,
    resolved_data,
    resolved_query,
    resolvers_of,
)
from alula.schema._resolvers.properties import hidden as hide
from alula.schema._resolvers.resolver import Resolver, resolve
from alula.schema._resolvers.result_hooks import resolve_external, resolve_result
from alula.schema._validation_hooks import validate_data, validate_query
from alula.types import METHODS_WITHOUT_DATA, STANDARD_METHODS, UNSET

__all__ = ["with_schema"]

_WHOLE: Final = ("create", "update")
_DATA: Final = (*_WHOLE, "patch")


def with_schema(
    service: Any,
    model: Any,
    *,
    extensions: Extensions | None = None,
    query: Resolvers | None = None,
    data: Resolvers | None = None,
    result: Resolvers | None = None,
    external: Resolvers | None = None,
    hidden: Collection[str] = (),
    queryable: Collection[str] = (),
) -> ServiceBundle:
    """Return a service that checks and converts queries and data: ``use`` takes it.

    ``app.use("messages", with_schema(MongoDBService(...), Message))``. Queries are held to the
    whole query syntax of the model, with typed values; data of create and update to the model, in
    which the id need not be; data of patch to what of the model it has. Checks and resolvers of
    what comes in run behind all around hooks and behind `authenticate`, and in front of all other
    before hooks, in whatever order these are registered.

    Args:
        service: The service. Its ``id`` and ``schema_keywords`` count, where it has them.
        model: The JSON Schema of its records (type ``object``), or a Pydantic model. A JSON
            Schema is closed unless it says something about ``additionalProperties``, and knows
            the keyword ``date``, which makes dates of text.
        extensions: Further operators by property, as `query_syntax` takes them.
        query: Resolves the query, after its check. Like the next three it is what `resolve`
            returns, or a mapping of methods to these.
        data: Resolves the data of create, update and patch, after its check. What the model
            requires and a resolver makes has to be there after it; a `virtual` property and one
            whose function has no parameters need never be sent.
        result: Resolves results.
        external: Resolves what may leave.
        hidden: Names of properties that never leave and that nobody from outside can ask for.
            Those whose resolver in ``external`` is `hidden` and those that the model says are
            never sent (``writeOnly``, ``SecretStr``) are hidden without being named here.
        queryable: Names of properties that ``result`` or ``external`` resolves and that queries
            from outside may mention all the same. Without it they must not: clients could find
            out the stored value, which they are not shown.

    Raises:
        SchemaError: The model is malformed, or has no properties, or one of a type that cannot
            be stored.
        TypeError: The service is not one, or something is not a resolver.
        ValueError: A resolver, ``hidden`` or ``queryable`` is for a property that the model does
            not have, or for a method that the service does not have, or a property is both hidden
            and queryable.
    """
    if isinstance(service, type | ServiceBundle):
        raise TypeError(f"with_schema takes a service, such as MemoryService(), not {service!r}")
    id_ = getattr(service, "id", None)
    keywords = getattr(service, "schema_keywords", ())
    records = records_of(model, id_ if isinstance(id_, str) else "id", keywords)
    places = {"query": query, "data": data, "result": result, "external": external}
    for place, given in places.items():
        _check(place, given, service, records)
    unsent = write_only(records.schema).union(_names("hidden", hidden, records))
    secret = unsent.union(*(each.hidden_names for each in _resolvers_in(external)))
    changed = {
        name for each in (*_resolvers_in(result), *_resolvers_in(external)) for name in each.names
    }
    opened = _names("queryable", queryable, records)
    if opened & secret:
        raise ValueError(f"with_schema: {min(opened & secret)!r} is both hidden and queryable")

    around: list[Hook] = []
    shown = [external] if external is not None else []
    if unsent:
        shown.append(resolve(dict.fromkeys(unsent, hide)))
    if shown:
        around.append(resolve_external(*shown))
    if result is not None:
        around.append(resolve_result(result))
    incoming = _Incoming(records, extensions or {}, query, data, secret | (changed - opened))
    there = [name for name in STANDARD_METHODS if callable(getattr(service, name, None))]
    methods = dict.fromkeys((*there, *_methods_in(query), *_methods_in(data)))
    leaves = without_names(records.schema, secret) if secret else records.schema
    return ServiceBundle(
        service,
        {"around": around},
        leaves,
        first={name: incoming.first(name) for name in methods},
        last={name: incoming.last(name) for name in methods},
    )


def _check(place: str, given: Any, service: Any, records: Records) -> None:
    """Check the resolvers of one place.

    Raises:
        TypeError: Something is not a resolver.
        ValueError: One is for a property that the model does not have, or for a method that the
            service does not have.
    """
    if given is None:
        return
    resolvers_of(place, [given], without=METHODS_WITHOUT_DATA if place == "data" else ())
    for method in _methods_in(given):
        if not callable(getattr(service, method, None)):
            raise ValueError(
                f"with_schema: {place} has a resolver for the method {method!r}, which"
                f" {type(service).__name__} does not have"
            )
    known = names_in(records.schema)
    if known is not None:
        for resolver in _resolvers_in(given):
            resolver.check(known)


def _methods_in(given: Resolvers | None) -> Iterable[str]:
    return given.keys() if isinstance(given, Mapping) else ()


def _resolvers_in(given: Resolvers | None) -> Iterable[Resolver]:
    if given is None:
        return ()
    return [given] if isinstance(given, Resolver) else given.values()


def _names(place: str, names: Collection[str], records: Records) -> set[str]:
    """Return names of properties.

    Raises:
        TypeError: It is one name alone, or not a collection.
        ValueError: The model has no such property.
    """
    if isinstance(names, str):
        raise TypeError(f"{place} takes the names of properties in a list, not {names!r} alone")
    if not isinstance(names, Collection):
        raise TypeError(f"{place} takes the names of properties in a list, not {names!r}")
    known = names_in(records.schema)
    for name in names:
        if known is not None and name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
            raise ValueError(f"{place} names {name!r}, which the schema does not have; {hint}")
    return set(names)


class _Made(NamedTuple):
    """What the resolvers of one call had and made, so that they can run again on the same.

    Attributes:
        query: The query in front of them, and a copy of it behind them.
        data: The same for the data, which may be a list of records.
        caller: Who was known to be calling.
        failure: What a resolver raised before there was a user.
    """

    query: tuple[Any, Any]
    data: tuple[Any, Any]
    caller: tuple[Any, Any]
    failure: Exception | None


class _Incoming:
    """The hooks for what comes in with a call.

    Args:
        records: What is known of the records.
        extensions: Further operators by property.
        query: The resolvers of queries.
        data: The resolvers of data.
        closed: Names that queries from outside must not mention.
    """

    def __init__(
        self,
        records: Records,
        extensions: Extensions,
        query: Resolvers | None,
        data: Resolvers | None,
        closed: Collection[str],
    ) -> None:
        self._records = records
        self._of_query = _by_method(query, STANDARD_METHODS)
        self._of_data = _by_method(data, _DATA)
        self._inside = records.query(extensions)
        self._outside = self._inside
        if closed:
            asked = {name: extensions[name] for name in extensions if _head(name) not in closed}
            self._outside = records.query(asked, closed)
        self._required = {name: self._required_of(name) for name in _WHOLE}

    def first(self, method: str) -> Sequence[Hook]:
        """Return the hooks in front of the other before hooks."""
        checks: list[Hook] = []
        if method in STANDARD_METHODS:
            checks.append(self._check_query())
        if method in _DATA:
            checks.append(self._check_data(method))
        return [_take_back, *checks, self._resolve] if self._resolves(method) else checks

    def last(self, method: str) -> Sequence[Hook]:
        """Return the hooks behind them."""
        hooks: list[Hook] = [self._resolve_again] if self._resolves(method) else []
        if method in STANDARD_METHODS and (self._inside.operators or self._inside.filters):
            hooks.append(self._open)
        return hooks

    def _resolves(self, method: str) -> bool:
        return bool(self._of_query(method) or self._of_data(method))

    def _check_query(self) -> Hook:
        """Return the hook that checks queries; those from outside may not ask for everything."""
        inside = validate_query(self._inside)
        if self._outside is self._inside:
            return inside
        outside = validate_query(self._outside)

        async def check_query(context: HookContext) -> None:
            await (inside if context.params.get("provider") is None else outside)(context)

        return annotate_hook(check_query, query=self._outside)

    def _check_data(self, method: str) -> Hook:
        """Return the hook that checks data; what is required and resolved may be made later."""
        if method == "patch":
            return validate_data(self._records.part())
        made: set[str] = set()
        for resolver in self._of_data(method):
            made |= resolver.made_names
        check = validate_data(self._records.whole(self._required[method], made))
        sent = self._records.whole((), made)
        return annotate_hook(check, data=lambda _method: sent, kinds=("before",))

    def _required_of(self, method: str) -> frozenset[str]:
        """Return the names that are resolved in the data of a method, and have to be there then."""
        resolved = {name for resolver in self._of_data(method) for name in resolver.names}
        return frozenset(resolved & self._records.required())

    async def _resolve(self, context: HookContext) -> None:
        """Resolve query and data.

        Where a call from outside has no user, a failure waits for the other before hooks: one of
        them may set the user whom a resolver needs.
        """
        query, data, params = query_of(context), context.data, context.params
        caller, failure = _caller(context), None
        try:
            await self._run(context)
        except Exception as error:
            if params.get("provider") is None or params.get("user") is not None:
                raise
            failure = error
            set_query(context, query)
            context.data = data
        vars(context)[_MADE] = _Made(
            (query, _copy(query_of(context))), (data, _copy(context.data)), caller, failure
        )

    async def _run(self, context: HookContext) -> None:
        data, method = context.data, context.method
        if chosen := self._of_query(method):
            set_query(context, await resolved_query(chosen, query_of(context), context))
        if data is not None and (chosen := self._of_data(method)):
            required = self._required.get(method, ())
            context.data = await resolved_data(chosen, data, context, required)

    async def _resolve_again(self, context: HookContext) -> None:
        """Resolve once more where a before hook has said who is calling.

        Raises:
            Exception: What a resolver raises now, or has raised where there is still no user.
        """
        made: _Made = vars(context)[_MADE]
        if any(
            now is not before for now, before in zip(_caller(context), made.caller, strict=True)
        ):
            await _take_back(context)
            await self._run(context)
        elif made.failure is not None:
            raise made.failure

    async def _open(self, context: HookContext) -> None:
        """Mark a query as checked that a before hook has put in the place of the checked one."""
        query = query_of(context)
        if not isinstance(query, ValidatedQuery):
            checker = self._inside if context.params.get("provider") is None else self._outside
            set_query(context, ValidatedQuery(query, checker.operators, checker.filters))


_MADE: Final = "_made_by_resolvers"


async def _take_back(context: HookContext) -> None:
    """Put back what resolvers have changed, where a call is tried again or resolved again.

    They have run on it, and must not run on what they made: a hash would be hashed once more.
    What hooks have changed since stays.
    """
    made: _Made | None = vars(context).pop(_MADE, None)
    if made is not None:
        set_query(context, _before(query_of(context), *made.query))
        context.data = _before(context.data, *made.data)


def _before(now: Any, given: Any, made: Any) -> Any:
    """Return a value with what is still as resolvers made it put back to what was given."""
    if isinstance(now, list | tuple) and isinstance(made, list) and len(now) == len(made):
        return [_before(*each) for each in zip(now, given, made, strict=True)]
    if not (isinstance(now, Mapping) and isinstance(given, Mapping) and isinstance(made, Mapping)):
        return now
    back: Any = now.copy() if isinstance(now, ValidatedQuery) else dict(now)
    for name in {**given, **made}:
        before, after = given.get(name, UNSET), made.get(name, UNSET)
        if before is not after and back.get(name, UNSET) is after:
            if before is UNSET:
                del back[name]
            else:
                back[name] = before
    return back


def _copy(value: Any) -> Any:
    """Return a copy that later changes of the value, and of the records in a list, leave alone."""
    if isinstance(value, list | tuple):
        return [_copy(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def _caller(context: HookContext) -> tuple[Any, Any]:
    return context.params.get("user"), context.params.get("authentication")


def _by_method(
    given: Resolvers | None, methods: Collection[str]
) -> Callable[[str], Sequence[Resolver]]:
    """Return what gives the resolvers for a method; one resolver alone is for ``methods``."""
    if isinstance(given, Resolver):
        given = dict.fromkeys(methods, given)
    return resolvers_of("with_schema", [given]) if given else lambda _method: ()


def _head(name: str) -> str:
    return name.partition(".")[0]
