"""`with_schema`: a service with the schema of its records.

Check first, resolve last, once. Everything runs in this order, from the outside in: the hooks of
the application, the resolvers of results, the other around hooks of the service, `authenticate` if
it is a before hook, the checks of the query and of the data, all other before hooks, the resolvers
of the query and of the data, and the method. So before hooks see what was sent, checked and
converted, and resolvers know what all hooks have set, such as the user. No hook changes what they
made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, overload

from alula._context import HookContext, Params
from alula._service_object import RecordFields, ServiceBundle
from alula.errors import BadRequest, NotFound
from alula.hooks import annotate_hook
from alula.query import Grammar, ValidatedQuery
from alula.query._grammar import as_list
from alula.schema._changes import KNOWN_OPERATORS, Changes, has_operators
from alula.schema._hidden_and_queryable import (
    FieldVisibility,
    field_names,
    field_visibility,
    without_fields,
)
from alula.schema._hidden_and_queryable import hidden as hide
from alula.schema._json_schema.query_schema import NOTHING_OPENED, Extensions, Opened
from alula.schema._pydantic_models.model_validator import with_computed
from alula.schema._resolvers.hooks import (
    METHODS_WITH_DATA,
    Hook,
    Next,
    Resolvers,
    by_method,
    external_hook,
    query_like,
    resolved_data,
    resolved_query,
    resolvers_of,
    result_hook,
)
from alula.schema._resolvers.resolver import Resolver, resolve
from alula.schema._validation_hooks import name_as_stored, validate_data, validate_query
from alula.schema._validators import AnyValidator, Records, records_of
from alula.types import (
    METHODS_WITHOUT_DATA,
    STANDARD_METHODS,
    UNSET,
    JSONValue,
    RecordType,
    is_mapping,
)

__all__ = ["with_schema"]

_WHOLE_RECORDS: Final = ("create", "update")
_CHANGING: Final = ("update", "patch")
_OF_QUERIES: Final = frozenset({"filters", "operators"})
_OF_PAGES: Final = frozenset({"$limit", "$select", "$skip", "$sort"})


@overload
def with_schema(
    service: object,
    model: type[RecordType],
    *,
    extensions: Extensions | None = None,
    query: Resolvers | None = None,
    data: Resolvers | None = None,
    result: Resolvers | None = None,
    external: Resolvers | None = None,
    hidden: Collection[str] = (),
    queryable: Collection[str] = (),
) -> ServiceBundle[RecordType]: ...
@overload
def with_schema(
    service: object,
    model: object,
    *,
    extensions: Extensions | None = None,
    query: Resolvers | None = None,
    data: Resolvers | None = None,
    result: Resolvers | None = None,
    external: Resolvers | None = None,
    hidden: Collection[str] = (),
    queryable: Collection[str] = (),
) -> ServiceBundle: ...
def with_schema(
    service: object,
    model: object,
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

    ``app.use("messages", with_schema(MongoDBService(...), Message))``. Queries may use the whole
    query syntax for the fields of the model, with typed values. The data of create and update has
    to be a whole record, in which the id is optional; the data of patch a part of one. These checks
    run after all around hooks and after `authenticate`, and before all other before hooks, whatever
    the order of registration. Resolvers run once: those of the query and the data directly before
    the method, those of results after all other hooks of the service.

    Examples:
        >>> from alula.adapters.memory import MemoryService
        >>> schema = {"properties": {"text": {"type": "string"}}, "required": ["text"]}
        >>> bundle = with_schema(MemoryService(), schema)
        >>> list(bundle.schema["properties"])
        ['id', 'text']

    Args:
        service: The service. Its ``id``, ``schema_keywords`` and ``converts_queries`` count, if it
            has them. If it has ``with_record_check(check)``, such as an `UploadService`, its
            ``create`` awaits that for each new record, to check and resolve it. If it has
            ``expect_fields(fields)``, such as a `SQLService`, that is called with the properties
            that it has to store.
        model: The JSON Schema of its records (type ``object``), a Pydantic model, or a
            ``TypedDict``. A JSON Schema is closed unless it says something about
            ``additionalProperties``, and knows the keyword ``date``, which converts text to dates.
            A ``TypedDict`` is closed, and its ``NotRequired`` keys have no default.
        extensions: Further operators by property, as `query_syntax` takes them.
        query: Resolves the query, after all before hooks. Like the next three it is what `resolve`
            returns, or a mapping of methods to these.
        data: Resolves the data of create, update and patch, after all before hooks. What the model
            requires and a resolver makes has to be there after it; a `virtual` property and one
            whose function has no parameters need never be sent.
        result: Resolves results. What the function of a `virtual` property says it returns is in
            descriptions of the API: ``async def author(message, context) -> User``.
        external: Resolves what clients get.
        hidden: Names of properties that clients neither get nor query. Properties whose resolver
            in ``external`` is `hidden`, and those that the model marks as never sent
            (``writeOnly``, ``SecretStr``), are hidden without being named here.
        queryable: Names of properties that ``result`` or ``external`` resolves and that the
            queries of clients may name all the same. By default they must not: clients could find
            out the stored value, which they are not shown.

    Raises:
        SchemaError: The model is malformed, or has no properties, or one of a type that cannot
            be stored.
        TypeError: The service is not one, or an argument is not a resolver.
        ValueError: A resolver, ``hidden`` or ``queryable`` is for a property that the model does
            not have, or for a method that the service does not have, or a property is both hidden
            and queryable.
    """
    if isinstance(service, type | ServiceBundle):
        raise TypeError(f"with_schema takes a service, such as MemoryService(), not {service!r}")
    records = records_of(model, service)
    places = {"query": query, "data": data, "result": result, "external": external}
    for place, given in places.items():
        if given is not None:
            _check_resolvers(place, given, service, records)
    outgoing = (*_resolvers_in(result), *_resolvers_in(external))
    visibility = field_visibility(
        records.schema,
        hidden=hidden,
        queryable=queryable,
        resolved={name for resolver in outgoing for name in resolver.names},
        hidden_by_resolvers={
            name for resolver in _resolvers_in(external) for name in resolver.hidden_names
        },
    )
    around = _outgoing_hooks(visibility, result, external)
    with_check: Any = getattr(service, "with_record_check", None)
    _check_search(service, visibility.secret)
    incoming = _IncomingHooks(
        service,
        records,
        extensions or {},
        query,
        data,
        visibility.not_queryable,
        checks_create=not callable(with_check),
    )
    # A service of forms has the record when it has read the form, so its method checks that.
    if callable(with_check):
        service = with_check(incoming.completion())
    if callable(expect := getattr(service, "expect_fields", None)):
        expect(_stored_fields(records, data, outgoing))
    renaming = () if records.as_stored is None else (name_as_stored(records.as_stored),)
    methods = {name for name in STANDARD_METHODS if callable(getattr(service, name, None))}
    methods.update(*(given for given in (query, data) if isinstance(given, Mapping)))
    described = with_computed(
        records.schema,
        {name: of for resolver in outgoing for name, of in resolver.virtual_functions.items()},
    )
    return ServiceBundle(
        service,
        {"around": {"all": around, **incoming.around()}},
        without_fields(described, visibility.secret) if visibility.secret else described,
        first={name: incoming.first(name) for name in methods},
        last={name: incoming.last(name) for name in methods},
        outermost=dict.fromkeys(METHODS_WITH_DATA, renaming) if renaming else {},
    )


def _outgoing_hooks(
    visibility: FieldVisibility, result: Resolvers | None, external: Resolvers | None
) -> list[Hook]:
    """Return the around hooks that resolve and redact what leaves."""
    redacting = [external] if external is not None else []
    if visibility.hidden:
        # After the resolvers of the application, which may need the value that is hidden then.
        redacting.append(resolve(dict.fromkeys(visibility.hidden, hide)))
    virtual = [of.virtual_names for given in (result, external) for of in _resolvers_in(given)]
    closed = visibility.not_queryable.difference(*virtual)
    around: list[Hook] = [external_hook(redacting, closed)] if redacting else []
    if result is not None:
        around.append(result_hook([result], closed))
    return around


def _stored_fields(
    records: Records, data: Resolvers | None, outgoing: Iterable[Resolver]
) -> RecordFields:
    """Return the properties of new records, for a service that checks that it can store them."""
    of_data = [*_resolvers_in(data)]
    made = {name for resolver in of_data for name in resolver.virtual_names}
    # A resolver of the data may drop a property, and one of results may make it.
    maybe = {name for resolver in of_data for name in resolver.names}
    maybe |= {name for of in outgoing for name in of.virtual_names} - records.filled()
    names = field_names(records.schema)
    declared: Iterable[str] = records.schema["properties"]
    stored = {name: None for name in declared if name not in maybe}
    return RecordFields(
        [*stored | dict.fromkeys(sorted(made))],
        None if names is None else {*names, *made},
    )


def _check_resolvers(place: str, given: Resolvers, service: object, records: Records) -> None:
    """Check the resolvers of one argument.

    Raises:
        TypeError: It is not a resolver.
        ValueError: One is for a property that the model does not have, or for a method that the
            service does not have.
    """
    resolvers_of(place, [given], without=METHODS_WITHOUT_DATA if place == "data" else ())
    for method in given if isinstance(given, Mapping) else ():
        if not callable(getattr(service, method, None)):
            raise ValueError(
                f"with_schema: {place} has a resolver for the method {method!r}, which"
                f" {type(service).__name__} does not have"
            )
    properties = field_names(records.schema)
    if properties is not None:
        for resolver in _resolvers_in(given):
            resolver.check(properties)


def _check_search(service: object, secret: frozenset[str]) -> None:
    """Refuse a service whose clients could find out a hidden property by searching.

    Raises:
        ValueError: Its option ``search`` names one.
    """
    searched = set(getattr(getattr(service, "options", None), "search", ()))
    if hidden_text := searched.intersection(secret):
        raise ValueError(
            f"with_schema: $search looks in {min(hidden_text)!r}, which is hidden: clients could"
            " find out what it contains; leave it out of the option search"
        )


def _resolvers_in(given: Resolvers | None) -> Iterable[Resolver]:
    if given is None:
        return ()
    return [given] if isinstance(given, Resolver) else given.values()


class _Resolved(NamedTuple):
    """What the resolvers of one call got and made, so that another attempt begins with the same.

    Attributes:
        query: The query before the resolvers, and a copy of it after them.
        data: The same for the data, which may be a list of records.
    """

    query: tuple[Any, Any]
    data: tuple[Any, Any]


class _IncomingHooks:
    """The hooks for the query and the data of a call.

    Args:
        service: The service.
        records: Makes the validators.
        extensions: Further operators by property.
        query: The resolvers of queries.
        data: The resolvers of data.
        not_queryable: Fields that the queries of clients must not name.
        checks_create: Whether the data of `create` is a record; otherwise the service calls what
            `completion` returns with its records.
    """

    def __init__(
        self,
        service: object,
        records: Records,
        extensions: Extensions,
        query: Resolvers | None,
        data: Resolvers | None,
        not_queryable: Collection[str],
        *,
        checks_create: bool,
    ) -> None:
        self._records = records
        self._changes = records.changes()
        # Of an adapter; a service of one's own says nothing about such keys.
        self._dollar_keys: Mapping[str, str] = getattr(service, "dollar_keys", {})
        opened = getattr(getattr(service, "options", None), "update_operators", ())
        if unknown := KNOWN_OPERATORS.symmetric_difference(opened).intersection(opened):
            raise ValueError(
                f"with_schema: the service opens {min(unknown)!r} for updates, whose operand no"
                " schema can check; leave it out of update_operators, and offer a method for it"
            )
        self._checks_create = checks_create
        queries: Mapping[str, Resolver] = (
            {} if query is None else by_method(query, STANDARD_METHODS)
        )
        datas: Mapping[str, Resolver] = {} if data is None else by_method(data, METHODS_WITH_DATA)
        self._of_query = resolvers_of("with_schema", [queries])
        self._of_data = resolvers_of("with_schema", [datas])
        self._service = service
        self._extensions = extensions
        self._not_queryable = not_queryable
        self._query_checks: dict[Opened, tuple[AnyValidator, AnyValidator]] = {}
        self._query_check, self._client_query_check = self._checks_of_queries(opened_by(service))
        required = records.required()
        self._required = {
            method: frozenset(name for resolver in self._of_data(method) for name in resolver.names)
            & required
            for method in _WHOLE_RECORDS
        }

    def first(self, method: str) -> Sequence[Hook]:
        """Return the hooks before the other before hooks."""
        checks: list[Hook] = []
        if method in STANDARD_METHODS:
            checks.append(self.query_hook())
        if method in METHODS_WITH_DATA:
            checks.append(self.data_hook(method))
        # A call that is tried again comes here with what resolvers made of its data.
        return [_restore, *checks] if self._resolves(method) else checks

    def around(self) -> Mapping[str, Sequence[Hook]]:
        """Return around hooks by method."""
        hooks = {method: [self.within_limits] for method in filter(self._has_operators, _CHANGING)}
        return hooks if self._checks_create else {**hooks, "create": [self.remember]}

    def last(self, method: str) -> Sequence[Hook]:
        """Return the hooks after them."""
        hooks: list[Hook] = [self.resolve] if self._resolves(method) else []
        if method in _CHANGING and self._has_operators(method):
            hooks.append(self.limit)
        opens = self._query_check.operators or self._query_check.filters
        if opens and method in STANDARD_METHODS:
            hooks.append(self.keep_query_open)
        return hooks

    def _resolves(self, method: str) -> bool:
        return bool(self._of_query(method) or self._of_data(method))

    def _checks_of_queries(self, opened: Opened) -> tuple[AnyValidator, AnyValidator]:
        """Return the validators of the application's queries and of those of clients."""
        checks = self._query_checks.get(opened)
        if checks is None:
            check = visible = self._records.query(self._extensions, opened=opened)
            if self._not_queryable:
                allowed = {
                    name: extension
                    for name, extension in self._extensions.items()
                    # An operator on a part of a hidden object would reveal it as well.
                    if name.partition(".")[0] not in self._not_queryable
                }
                visible = self._records.query(allowed, self._not_queryable, opened)
            checks = self._query_checks[opened] = check, visible
        return checks

    def query_hook(self) -> Hook:
        """Return the hook that checks queries; those of clients must not name all fields."""
        check_all = validate_query(self._query_check)
        is_adapter = hasattr(self._service, "query_grammar")
        if self._client_query_check is self._query_check and not is_adapter:
            return check_all
        check_visible = validate_query(self._client_query_check)

        def check_query(context: HookContext) -> Any:
            params = context.params
            from_client = params.provider is not None
            options: Any = params.adapter
            # Only code of the application sets options of a call, so there are few of them.
            if options and not _OF_QUERIES.isdisjoint(options):
                checks = self._checks_of_queries(opened_by(self._service, params))
                return validate_query(checks[from_client])(context)
            return (check_visible if from_client else check_all)(context)

        return annotate_hook(check_query, query=self._client_query_check)

    def data_hook(self, method: str) -> Hook:
        """Return the hook that checks data; resolvers may make what is required later."""
        check: Hook
        if method == "patch":
            part = self._records.part()
            is_adapter = "patch" in self._dollar_keys
            check = validate_data(self._changes if is_adapter else part)
            return annotate_hook(check, data=lambda _method: part, kinds=("before",))

        async def leave(context: HookContext) -> None:
            """Check nothing: the service itself does so for each record."""

        sent, whole = self._whole(method)
        check = leave
        if method != "create" or self._checks_create:
            is_by_operators = method == "update" and self._has_operators(method)
            check = validate_data(
                _WholeOrOperators(whole, self._changes) if is_by_operators else whole
            )
        return annotate_hook(check, data=lambda _method: sent, kinds=("before",))

    def _whole(self, method: str) -> tuple[AnyValidator, AnyValidator]:
        """Return the validators of new records: for descriptions, and for the check.

        Descriptions say what a client has to send: all but what the server makes in any case. The
        check accepts records without what resolvers may make.
        """
        made: set[str] = set()
        for resolver in self._of_data(method):
            made |= resolver.made_names
        sent, required = self._records.whole((), made), self._required[method]
        return sent, self._records.whole(required, made) if required else sent

    def completion(self) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
        """Return what checks and resolves a new record, for a service that reads its data itself.

        It raises a `BadRequest` if the record is not valid, or a resolver refuses it.
        """
        check, chosen = self._whole("create")[1], self._of_data("create")

        async def complete(record: Mapping[str, Any]) -> Any:
            checked = check.validate(record)
            # Without a context, the method was called without its hooks.
            if (context := _creating.get()) is None or not chosen:
                return checked
            return await resolved_data(chosen, checked, context, self._required["create"])

        return complete

    async def remember(self, context: HookContext, next: Next) -> None:
        """Keep the context of a `create`, for the resolvers of `completion`."""
        token = _creating.set(context)
        try:
            await next()
        finally:
            _creating.reset(token)

    async def resolve(self, context: HookContext) -> None:
        """Resolve the query and the data, last of all: the method gets what is made here."""
        method, query, data = context.method, context.params.query, context.data
        try:
            if chosen := self._of_query(method):
                context.params.query = await resolved_query(chosen, query, context)
            is_record = method != "create" or self._checks_create
            if data is not None and is_record and (chosen := self._of_data(method)):
                # Operators leave all other properties as they are.
                is_whole = method in _WHOLE_RECORDS and not _are_operators(method, data)
                required = self._required[method] if is_whole else frozenset[str]()
                context.data = await resolved_data(chosen, data, context, required)
        except BaseException:
            context.params.query = query
            raise
        # Not in params: those go on to other services, and their hooks could read them.
        vars(context)[_RESOLVED] = _Resolved(
            (query, _copy(context.params.query)), (data, _copy(context.data))
        )

    def _has_operators(self, method: str) -> bool:
        return self._dollar_keys.get(method) == "internal"

    async def limit(self, context: HookContext) -> None:
        """Let an operator change only records whose values stay within the limits of the schema.

        Raises:
            BadRequest: It would change several records, of which some could be left out.
        """
        data = context.data
        conditions = self._changes.conditions(data) if "$inc" in data else []
        if not conditions:
            return
        if context.id is None:
            raise BadRequest(
                "$inc of a property with a limit changes one record at a time: send its id"
            )
        query = context.params.query
        vars(context)[_UNLIMITED] = query
        others = as_list(query.get("$and", [])) or []
        context.params.query = query_like(query, {**query, "$and": [*others, *conditions]})

    async def within_limits(self, context: HookContext, next: Next) -> None:
        """Say that a change would leave the limits where `limit` kept the store from making it.

        Raises:
            BadRequest: It would.
        """
        try:
            await next()
        except NotFound:
            if (query := vars(context).pop(_UNLIMITED, None)) is None:
                raise
            # As the method would without the condition: it raises what the caller may know.
            params = context.params.copy()
            criteria = {name: query[name] for name in query if name not in _OF_PAGES}
            params.query = query_like(query, criteria)
            await context.service.service.get(context.id, params)
            paths = ", ".join(context.data["$inc"])
            raise BadRequest(f"$inc would leave the limits of {paths}") from None

    async def keep_query_open(self, context: HookContext) -> None:
        """Mark as checked what a before hook has put in place of the checked query."""
        query = context.params.query
        if not isinstance(query, ValidatedQuery):
            from_client = context.params.provider is not None
            check = self._client_query_check if from_client else self._query_check
            context.params.query = ValidatedQuery(query, check.operators, check.filters)


def opened_by(service: Any, params: Params | None = None) -> Opened:
    """Return what a service opens for queries by its options, or by those of a call."""
    if not hasattr(service, "query_grammar"):
        return NOTHING_OPENED  # no adapter
    grammar: Grammar = service.query_grammar(params or Params())
    paths: Mapping[str, type] = getattr(service.options, "paths", {})
    # The service itself checks what belongs to other services.
    filters = grammar.filters.difference(service.related_names)
    return Opened(grammar.operators, filters, tuple(paths.items()))


class _WholeOrOperators:
    """Checks the data of an `update`: a whole record, or operators that change the stored one."""

    operators: frozenset[str] = frozenset()
    filters: frozenset[str] = frozenset()

    def __init__(self, whole: AnyValidator, changes: Changes) -> None:
        self._whole = whole
        self._changes = changes

    def validate(self, value: Any) -> Any:
        """Return the data with all conversions made.

        Raises:
            BadRequest: It is not valid.
        """
        chosen = self._changes if _are_operators("update", value) else self._whole
        return chosen.validate(value)


def _are_operators(method: str, data: object) -> bool:
    return method == "update" and is_mapping(data) and has_operators(data)


_RESOLVED: Final = "_resolved_by_with_schema"
_creating: Final[ContextVar[HookContext | None]] = ContextVar("creating", default=None)
_UNLIMITED: Final = "_query_before_limits"


async def _restore(context: HookContext) -> None:
    """Undo what resolvers have changed, before a call is tried again.

    Otherwise they would run on what they made: a hash would be hashed again. Changes that hooks
    made since then stay.
    """
    resolved: _Resolved | None = vars(context).pop(_RESOLVED, None)
    if resolved is not None:
        context.params.query = _restored(context.params.query, *resolved.query)
        context.data = _restored(context.data, *resolved.data)


def _restored(now: JSONValue, given: Any, made: JSONValue) -> Any:
    """Return a value in which everything that is still as resolvers made it is as it was given."""
    if isinstance(now, list | tuple) and isinstance(made, list) and len(now) == len(made):
        return [_restored(*versions) for versions in zip(now, given, made, strict=True)]
    if not (isinstance(now, Mapping) and is_mapping(given) and isinstance(made, Mapping)):
        return now
    restored: Any = now.copy() if isinstance(now, ValidatedQuery) else dict(now)
    for name in {**given, **made}:
        before, after = given.get(name, UNSET), made.get(name, UNSET)
        # By identity: a hook may have set an equal value on purpose.
        if before is not after and restored.get(name, UNSET) is after:
            if before is UNSET:
                del restored[name]
            else:
                restored[name] = before
    return restored


def _copy(value: JSONValue) -> object:
    """Return a copy that later changes of the value, and of the records in a list, do not reach."""
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
