"""What a call carries: the `Params` of the caller, and the `HookContext` of the call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypedDict

from alula._connection import Connection
from alula._item_stream import ItemStream
from alula.types import EVENT_OF_METHOD, UNSET, App_co, Data_co, Id, Result_co, Service_co, User_co

__all__ = ["GivenParams", "HookContext", "Params", "RequestParams", "connection_params"]


class GivenParams(TypedDict, total=False):
    """The params that a call takes as keywords besides ``query``, for type checkers.

    See `Params` for their meaning. Params that an application declares itself (`Params.declare`)
    are given in a mapping or in `Params`, which type checkers do not check.
    """

    provider: str | None
    headers: Mapping[str, str]
    ip: str | None
    route: Mapping[str, Any]
    paginate: Mapping[str, Any] | bool | None
    adapter: Mapping[str, Any] | None
    pipeline: list[Any] | None
    docdb: Mapping[str, Any] | None
    sql: Mapping[str, Any] | None
    collation: Mapping[str, Any] | None
    authentication: Mapping[str, Any] | None
    authenticated: bool
    user: Any
    connection: Connection | Mapping[str, Any] | None  # a mapping in calls of clients


class _AttributeName(str):
    """The name of an attribute of params, as a key.

    A mapping made of params, such as ``{**params, "query": {}}``, is a plain dict. The type of its
    keys tells which of them were attributes of params: these need no declaration.
    """

    __slots__ = ()


class Params(Generic[User_co]):
    """The parameters of one call besides id and data; of type `Params[User]` with a typed user.

    Only ``query`` comes from a client; the others are set by the server, its hooks and its
    middleware. Items work like attributes: ``params["tenant"]``.

    Hooks and middleware add any attributes: ``params.tenant = "acme"``. A name in a mapping or a
    keyword may be a mistake: ``find({"done": True})`` would select everything. So calls refuse
    names that are not declared. Declare once what your hooks and services read::

        Params.declare("tenant")

    Args:
        params: Params or a mapping to start from; it is not changed. A mapping made of params
            (``{**params, "query": {}}``) may have all attributes that they had.
        values: Attributes by name, in place of those in ``params``.

    Attributes:
        query: The query, in the common query syntax for adapters; a dict of this call alone.
        provider: ``"rest"`` for calls that came over HTTP, None for internal ones.
        headers: Headers of the request, names in lower case.
        ip: The address of the client, None if unknown.
        route: Values of the placeholders in the service path.
        paginate: For this call only: False for no pages, or ``{"default", "max"}``.
        adapter: Options of an adapter for this call only (``paginate``, ``multi``, ``model``).
        pipeline: Aggregation stages for the document database; ``{"$framework": {}}`` among them
            marks where those of the query go.
        docdb: Options that go to the document database's driver.
        sql: Options for a service on SQL: ``connection``, ``where``, ``settings``, ``lock``,
            ``upsert``, ``primary``, ``max_time_ms``. By the application's own code only.
        collation: ``{"locale", "strength"}`` for the document database.
        authentication: The credentials of the caller: ``{"strategy", ...}``.
        user: The record of the signed-in user.
        connection: The real-time connection that the call came over, None for other calls.
        live: Set while a live list is read, None for other calls.

    Raises:
        TypeError: ``params`` or the query is not a mapping.

    Examples:
        >>> params = Params(query={"$limit": 2})
        >>> params.tenant = "acme"
        >>> params.query, params["tenant"]
        ({'$limit': 2}, 'acme')
    """

    # The undeclared names in mappings and keywords; calls refuse them.
    __slots__ = ("__dict__", "__weakref__", "_undeclared")

    _undeclared: tuple[str, ...]
    query: dict[str, Any]
    provider: str | None = None
    headers: Mapping[str, str]
    ip: str | None = None
    route: Mapping[str, str]
    paginate: Mapping[str, Any] | bool | None = None
    adapter: Mapping[str, Any] | None = None
    pipeline: list[Any] | None = None
    docdb: Mapping[str, Any] | None = None
    sql: Mapping[str, Any] | None = None
    collation: Mapping[str, Any] | None = None
    authentication: Mapping[str, Any] | None = None
    user: User_co = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # None is part of `User` where nobody may be signed in
    connection: Connection | None = None
    live: object = None

    def __init__(self, params: Params | Mapping[str, Any] | None = None, /, **values: Any) -> None:
        if params is None and not values:  # most internal calls
            self.query = {}
            self._undeclared = ()
            return
        attributes = self.__dict__
        if isinstance(params, Params):
            attributes.update(params.__dict__)
            self._undeclared = () if type(params) is RequestParams else params._undeclared  # noqa: SLF001  # same class; where it was never set, reading it is slow
        else:
            self._undeclared = ()
            if params is not None:
                self._take(_attributes(params))
        if values:
            self._take(values)
        # A copy: hooks may change the query of a call, but not the mapping of the caller.
        query = attributes.get("query")
        if type(query) is dict:
            attributes["query"] = query.copy()
        elif query is None:
            attributes["query"] = {}
        elif isinstance(query, str | bytes):  # dict("") would be an empty query
            raise TypeError(f"params.query has to be a mapping, not {query!r}")
        else:
            try:
                attributes["query"] = dict(query)
            except (TypeError, ValueError):
                raise TypeError(f"params.query has to be a mapping, not {query!r}") from None

    def _take(self, values: Mapping[str, Any]) -> None:
        """Set attributes from a mapping or keywords, and remember the undeclared ones."""
        attributes = self.__dict__
        if "query" not in values and "query" not in attributes:
            self._undeclared += tuple(
                name for name in _NEVER_SCALARS if isinstance(values.get(name), str | int | float)
            )
        if values.keys() <= DECLARED_NAMES:
            attributes.update(values)
            return
        self._undeclared += tuple(
            str(name)
            for name in values
            if name not in DECLARED_NAMES
            and name not in attributes
            and type(name) is not _AttributeName
        )
        attributes.update((str(name), value) for name, value in values.items())

    @classmethod
    def declare(cls, *names: str) -> None:
        """Declare the names of params that your hooks, plugins or services read.

        Calls take them in mappings and as keywords from then on. Attributes that hooks and
        middleware set need no declaration. A declaration is global, and may be repeated.

        Args:
            names: Such as ``"tenant"``.

        Raises:
            TypeError: A name is not a string.
            ValueError: A name is empty or starts with ``$``, as in a query.
        """
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    f'Params.declare takes names, not {name!r}: Params.declare("tenant")'
                )
            if not name or name.startswith("$"):
                raise ValueError(f"{name!r} cannot be the name of a param; write it in the query")
        DECLARED_NAMES.update(names)

    def check_names(self, call: str, elsewhere: Mapping[str, str] | None = None) -> None:
        """Refuse undeclared names from mappings and keywords.

        Args:
            call: The call, for the message, such as ``"messages.find(...)"``.
            elsewhere: Names of settings inside other params, and what to write.

        Raises:
            TypeError: There are undeclared names. The message shows what to write.
        """
        names = self._undeclared
        if not names:
            return
        from difflib import get_close_matches  # noqa: PLC0415  # slow to import, only for a slip

        near = get_close_matches(names[0], sorted(DECLARED_NAMES), 1, 0.7)
        fields = ", ".join(
            f"{('$' + name if name in _QUERY_NAMES else name)!r}: ..." for name in names
        )
        if names[0] in _NEVER_SCALARS:
            hint = f"to select by a property of that name, write query={{{fields}}}"
        elif elsewhere and names[0] in elsewhere:
            hint = f"write {elsewhere[names[0]]}"
        elif near:
            hint = f"did you mean {near[0]}{'={...}' if near == ['query'] else ''}?"
        elif names[0] in _QUERY_WORDS:
            hint = "the param that selects records is query: query={...}"
        else:
            hint = f"to select records, give a query as query={{...}}, here query={{{fields}}}"
            if not any(name.startswith("$") or name in _QUERY_NAMES for name in names):
                declared = ", ".join(map(repr, names))
                hint += (
                    "; if a hook or a service reads it, declare it once:"
                    f" Params.declare({declared})"
                )
        listed = ", ".join(map(repr, names))
        if names[0] in _NEVER_SCALARS:
            raise TypeError(f"{call} was given {listed} as a single value and no query; {hint}")
        raise TypeError(f"{call} was given {listed}, which is not the name of a param; {hint}")

    def __getattr__(self, name: str) -> Any:
        if name == "_undeclared":  # never set in RequestParams, to save time per request
            return ()
        if name in {"headers", "route"}:  # a dict of their own, since hooks may write into it
            return self.__dict__.setdefault(name, {})
        raise AttributeError(
            f"params has no {name!r}; it has {', '.join(sorted(self.__dict__))}."
            f" Where it may be absent, use params.get({name!r})"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None: ...
    else:
        __class_getitem__ = classmethod(lambda cls, _: cls)  # an alias would set a param

    def __getitem__(self, name: str) -> Any:
        attributes = self.__dict__
        if name in attributes:
            return attributes[name]
        if name in WELL_KNOWN_NAMES:
            return getattr(self, name)
        raise KeyError(name)

    def __setitem__(self, name: str, value: object) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    # Without it, Python would iterate by items: params[0], params[1], ...
    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if isinstance(other, Params) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, so it cannot be a key

    def __repr__(self) -> str:
        # Headers and credentials hold tokens, which must not get into a log.
        shown = (
            f"{name}={'...' if name in {'headers', 'authentication'} else repr(value)}"
            for name, value in self.__dict__.items()
        )
        return f"Params({', '.join(shown)})"

    def keys(self) -> Iterator[str]:
        """Return the names that are set, for ``{**params}``.

        ``authenticated_by`` is left out: it is a service, and the mapping may become a result.
        """
        undeclared = self._undeclared  # stay undeclared in a mapping made of these params
        return (
            name if name in DECLARED_NAMES or name in undeclared else _AttributeName(name)
            for name in self.__dict__
            if name != "authenticated_by"
        )

    def get(self, name: str, default: object = None) -> Any:
        """Return an attribute, or ``default`` if it is None or not set."""
        value = self.__dict__.get(name)
        return default if value is None else value

    def copy(self, **changes: Any) -> Params[User_co]:
        """Return new params with the same attributes, and the given ones set."""
        copied: Params[User_co] = Params(self, **changes)
        if "query" not in changes and type(self.query) is not dict:
            copied.query = copy(self.query)  # keeps the type ValidatedQuery
        return copied


class RequestParams(Params):
    """The params of a request, as transports create them: five attributes, nothing to check.

    Args:
        query: A dict of this call alone.
        provider: The name of the transport.
        headers: The headers of the request.
        route: The values of placeholders.
        ip: The address of the client.
    """

    def __init__(
        self,
        query: dict[str, Any],
        provider: str,
        headers: Mapping[str, str],
        route: Mapping[str, str],
        ip: str | None,
    ) -> None:
        # Not super().__init__(): it checks every name, and these are right by construction.
        self.query = query
        self.provider = provider
        self.headers = headers
        self.route = route
        self.ip = ip


def connection_params(
    connection: Connection, query: dict[str, Any], route: Mapping[str, str]
) -> Params:
    """Return the params of a call over a connection, with the attributes of the connection.

    The user of an API key is left out: `authenticate` sets it where the key may do what it asks.

    Raises:
        NotAuthenticated: The token of the connection has expired, and it is about to close.
    """
    sign_in = connection.sign_in
    if sign_in is not None:
        sign_in.check()
    params = RequestParams.__new__(RequestParams)  # its __init__ sets attributes one by one
    attributes = params.__dict__
    attributes.update(connection.__dict__)
    if sign_in is not None and sign_in.hidden_user is not None:
        attributes.pop(sign_in.hidden_user, None)
    attributes["query"] = query
    attributes["route"] = route
    attributes["connection"] = connection
    return params


WELL_KNOWN_NAMES: Final = frozenset(Params.__annotations__) - {"_undeclared"}

DECLARED_NAMES: Final[set[str]] = {*WELL_KNOWN_NAMES, "authenticated"}
"""Names that calls take in mappings and keywords: those of `Params`, and declared ones."""

_NEVER_SCALARS: Final = ("user", "route", "headers", "authentication", "adapter", "docdb", "sql")
"""Params that are records or mappings: ``find({"user": 1})`` is meant as a query."""

_QUERY_WORDS: Final = frozenset({"where", "filter", "filters", "criteria", "conditions"})
_QUERY_NAMES: Final = frozenset({"limit", "skip", "sort", "select", "or", "and"})
_event_of: Final = EVENT_OF_METHOD.get


def _attributes(params: Params | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(params, Params | Mapping):
        raise TypeError(f"params has to be a mapping or Params, not {params!r}")
    return params.__dict__ if isinstance(params, Params) else params


def _replaced(name: str, consequence: str) -> str:
    return (
        f"context.params was set to a value without a {name}, so the call would {consequence};"
        " set the query as context.params.query = {...}, other params as attributes,"
        " context.params.user = ..., or keep the rest: context.params = {**context.params, ...}"
    )


class _InParams:
    """A name of params on the context, where it would have no effect: reading it is an error."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._text = f"a context has no {name!r}; write context.params.{name}"

    def __get__(self, context: object, owner: type) -> NoReturn:
        raise AttributeError(self._text)

    def __set__(self, context: object, value: object) -> NoReturn:
        raise AttributeError(f"{self._text} = ...")


class HookContext(Generic[Result_co, Data_co, User_co, App_co, Service_co]):
    """One call while it runs; hooks read and change it.

    For type checkers, a hook names the types of what it reads, in this order: those of ``result``,
    ``data``, ``params.user``, ``app`` and ``service``; ``HookContext[Message, NewMessage, User]``.

    Attributes:
        app: The application.
        service: The handle of the service that is called.
        path: The path of the service, without slashes at its ends.
        method: The name of the method.
        type: The type of the current hook: ``"around"``, ``"before"``, ``"after"``, ``"error"``.
        id: The id of get, update, patch and remove; None for several records.
        data: The data of create, update, patch and custom methods.
        params: The `Params` of the call. A mapping that a hook sets becomes params.
        result: The result of the method, `UNSET` before it ran. If a hook sets it before, the
            method is not called.
        dispatch: What clients get instead of ``result``, `UNSET` for the same.
        error: The exception, in error hooks. An error hook that sets ``result`` recovers the call.
        event: The event to emit after the call, None for no event. After an upsert it is that of
            what happened, such as ``"patched"`` after a `create` that changed a record.
        result_events: The event of each record of ``result``, if an upsert of several records
            created some and changed others; otherwise None. Setting ``event`` overrides it.
        http: ``status``, ``headers`` and ``location`` of the HTTP response.
        caller: The handle of the application that mounts this service, if the call came by it.
        streams: The streams that the call has opened, if its method streams. They are closed with
            the response, or when the call fails.
        wants_items: Whether the items of a method that streams are wanted. If not, as for a HEAD
            request, the method is not called.
    """

    type: str = "around"
    error: BaseException | None = None
    caller: Any = None
    result_events: Sequence[str] | None = None
    streams: tuple[ItemStream, ...] = ()
    wants_items: bool = True

    if not TYPE_CHECKING:  # checkers know none of these
        __class_getitem__ = classmethod(GenericAlias)  # takes any number of types
        # Hooks may set any other name. Setting these would have no effect, on what clients see too.
        query, provider = _InParams(), _InParams()

    def __init__(
        self,
        app: Any,
        service: Any,
        method: str,
        params: Params,
        id: Id = None,
        data: Any = None,
    ) -> None:
        self.app: App_co = app
        self.service: Service_co = service
        self.path: str = service.path
        self.method = method
        self.id = id
        self.data: Data_co = data
        self._params: Params[User_co] = params
        self.event: str | None = _event_of(method)
        self.http: dict[str, Any] = {}
        self.result: Result_co = UNSET  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]  # hooks after the method have its result
        self.dispatch: Any = UNSET

    @property
    def params(self) -> Params[User_co]:
        """The `Params` of the call.

        Raises:
            TypeError: On setting: the value is neither `Params` nor a mapping, or a mapping without
                a query, or a call of a client loses its provider.
        """
        return self._params

    @params.setter
    def params(self, value: Params | Mapping[str, Any]) -> None:
        if not isinstance(value, Params):  # such as {**context.params, "user": ann}
            given = _attributes(value)
            query: Mapping[str, Any] | None = given.get("query")
            if query is None:
                raise TypeError(_replaced("query", "select everything"))
            made = Params(value)
            if isinstance(query, dict):
                made.query = copy(query)  # keeps the type ValidatedQuery
            value = made
        # A hook must not turn the call of a client into an internal one by mistake: internal calls
        # pass `authenticate` without credentials, and their queries have no work limit.
        if self._params.provider is not None and "provider" not in value:
            raise TypeError(_replaced("provider", "count as an internal one"))
        value._undeclared = ()  # noqa: SLF001  # hooks may set any name
        self._params = value

    def __repr__(self) -> str:
        # A repr ends up in logs.
        is_secret = self.id is not None and getattr(self.service, "secret_ids", False)
        shown = "..." if is_secret else repr(self.id)
        return f"<HookContext {self.type} {self.path}.{self.method} id={shown}>"
