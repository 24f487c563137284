"""What travels through a call: the caller's `Params`, and the `HookContext` around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypedDict

from alula.types import EVENT_OF_METHOD, UNSET, Id

__all__ = ["GivenParams", "HookContext", "Params", "RequestParams"]


class GivenParams(TypedDict, total=False):
    """The params that a call takes by keyword beside ``query``, for type checkers.

    See `Params` for what each of them means. Params that an application declares itself
    (`Params.declare`) are given in a mapping or in `Params`, where checkers do not look.
    """

    provider: str | None
    headers: Mapping[str, str]
    ip: str | None
    route: Mapping[str, Any]
    paginate: Mapping[str, Any] | bool | None
    adapter: Mapping[str, Any] | None
    pipeline: list[Any] | None
    docdb: Mapping[str, Any] | None
    collation: Mapping[str, Any] | None
    authentication: Mapping[str, Any] | None
    authenticated: bool
    user: Any
    connection: Mapping[str, Any]


class _AttributeName(str):
    """The name of an attribute of params, as their keys have it.

    A mapping that is made from params, such as ``{**params, "query": {}}``, is a plain dict. Its
    names still tell which of them were attributes of params, and these need no declaration.
    """

    __slots__ = ()


class Params:
    """The parameters of one call beside id and data.

    Of all of them only ``query`` comes from a client; the others are set by the server, its hooks
    and its middleware. Items work like attributes: ``params["tenant"]``.

    Hooks and middleware add attributes at will: ``params.tenant = "acme"``. In a mapping or as a
    keyword, a name is given by hand, and may be a slip: ``find({"done": True})`` would select
    everything. So calls refuse names that nobody has declared. Those that your hooks and services
    read are declared once, where they are written::

        Params.declare("tenant")

    Args:
        params: Params or a mapping to begin with; it stays as it is. A mapping that is made from
            params (``{**params, "query": {}}``) may have whatever attributes they had.
        values: Attributes by name, in place of those in ``params``.

    Attributes:
        query: The query, in the common query syntax for adapters. Always a dict of this call.
        provider: ``"rest"`` for calls that came over HTTP, None for internal ones.
        headers: Headers of the request, names in lower case.
        ip: The address that the request came from, None where that is not known.
        route: Values of the placeholders in the service path.
        paginate: For this call only: False for no pages, or ``{"default", "max"}``.
        adapter: Options of an adapter for this call only (``paginate``, ``multi``, ``model``).
        pipeline: Aggregation stages for the document database; ``{"$framework": {}}`` among them
            marks where those of the query go.
        docdb: Options that go to the document database's driver.
        collation: ``{"locale", "strength"}`` for the document database.
        authentication: What the caller proved: ``{"strategy", ...}``.
        user: Who is signed in.

    Raises:
        TypeError: ``params`` or the query is not a mapping.
    """

    # The names that were given by hand and are not declared; calls refuse them.
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
    collation: Mapping[str, Any] | None = None
    authentication: Mapping[str, Any] | None = None
    user: Any = None

    def __init__(self, params: Params | Mapping[str, Any] | None = None, /, **values: Any) -> None:
        if params is None and not values:  # as in most calls from inside
            self.query = {}
            self._undeclared = ()
            return
        own = self.__dict__
        if isinstance(params, Params):
            own.update(params.__dict__)
            self._undeclared = params._undeclared  # noqa: SLF001  # its own kind
        else:
            self._undeclared = ()
            if params is not None:
                self._take(_attributes(params))
        if values:
            self._take(values)
        # A copy: hooks may change the query of a call, never the caller's own mapping.
        query = own.get("query")
        if type(query) is dict:
            own["query"] = query.copy()
        elif query is None:
            own["query"] = {}
        else:
            own["query"] = _read_query(query)

    def _take(self, values: Mapping[str, Any]) -> None:
        """Set attributes that were given by hand, and note those that nobody has declared."""
        own = self.__dict__
        if "query" not in values and "query" not in own:
            self._undeclared += tuple(
                name for name in _NEVER_SCALARS if isinstance(values.get(name), str | int | float)
            )
        if values.keys() <= _DECLARED:
            own.update(values)
            return
        self._undeclared += tuple(
            str(name)
            for name in values
            if name not in _DECLARED and name not in own and type(name) is not _AttributeName
        )
        own.update((str(name), value) for name, value in values.items())

    @classmethod
    def declare(cls, *names: str) -> None:
        """Declare params that hooks, plugins or services of yours read, by their names.

        Calls take them in mappings and as keywords from then on. What hooks and middleware set as
        attributes needs no declaration. It counts for the whole process, and twice does no harm.

        Args:
            names: Such as ``"tenant"``.

        Raises:
            TypeError: A name is not a string.
            ValueError: A name is empty or begins with ``$``, as those of a query do.
        """
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    f'Params.declare takes names, not {name!r}: Params.declare("tenant")'
                )
            if not name or name.startswith("$"):
                raise ValueError(f"{name!r} cannot be the name of a param; it belongs in the query")
        _DECLARED.update(names)

    def check_names(self, call: str, elsewhere: Mapping[str, str] | None = None) -> None:
        """Refuse names that were given by hand and that nobody has declared.

        Args:
            call: What they were given to, such as ``"messages.find(...)"``.
            elsewhere: How names are spelled that belong in another param.

        Raises:
            TypeError: There are some. The message shows what to write.
        """
        if self._undeclared:
            raise TypeError(_explain(self._undeclared, call, elsewhere or {}))

    def __getattr__(self, name: str) -> Any:
        if name == "_undeclared":  # those that a transport made; nobody gave them by hand
            return ()
        if name in {"headers", "route"}:  # made when read, since hooks may write into it
            empty = self.__dict__[name] = {}
            return empty
        raise AttributeError(
            f"params has no {name!r}; it has {', '.join(sorted(self.__dict__))}."
            f" Where it may be absent, use params.get({name!r})"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getitem__(self, name: str) -> Any:
        own = self.__dict__
        if name in own:
            return own[name]
        if name in _WELL_KNOWN:
            return getattr(self, name)
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return self.keys()

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if isinstance(other, Params) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, so it can not be a key

    def __repr__(self) -> str:
        # Headers and proofs carry tokens, which must not get into a log with the params.
        shown = (
            f"{name}={'...' if name in {'headers', 'authentication'} else repr(value)}"
            for name, value in self.__dict__.items()
        )
        return f"Params({', '.join(shown)})"

    def keys(self) -> Iterator[str]:
        """Return the names that were set, so that ``{**params}`` works.

        Which service has checked the credentials (``authenticated_by``) stays with the params: a
        mapping of them may become a result, and the service is not one.
        """
        undeclared = self._undeclared  # a mapping of the same does not launder them
        return (
            name if name in _DECLARED or name in undeclared else _AttributeName(name)
            for name in self.__dict__
            if name != "authenticated_by"
        )

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or ``default`` where it is None or was never set."""
        value = self.__dict__.get(name)
        return default if value is None else value

    def copy(self, **changes: Any) -> Params:
        """Return new params with the same attributes, and the given ones set."""
        copied = Params(self, **changes)
        if "query" not in changes:
            copied.query = copy(self.query)  # one that a schema has checked stays one
        return copied


class RequestParams(Params):
    """The params of a call from outside, as a transport makes them for each.

    Args:
        query: Made for this call; nobody else keeps it.
        provider: Name of the transport.
        headers: Headers of the request.
        route: Values of the placeholders.
        ip: The address that it came from.
    """

    def __init__(
        self,
        query: dict[str, Any],
        provider: str,
        headers: Mapping[str, str],
        route: Mapping[str, str],
        ip: str | None,
    ) -> None:
        self.query = query
        self.provider = provider
        self.headers = headers
        self.route = route
        self.ip = ip


_WELL_KNOWN: Final = frozenset(Params.__annotations__) - {"_undeclared"}

_DECLARED: Final[set[str]] = {*_WELL_KNOWN, "authenticated"}
"""Names that a call takes by hand: those of `Params`, and what was declared beside them."""


_NEVER_SCALARS: Final = ("user", "route", "headers", "authentication", "adapter", "docdb")
"""Params that are records or mappings: ``find({"user": 1})`` means to select by that name."""


def _read_query(query: Any) -> dict[str, Any]:
    try:
        if isinstance(query, str | bytes):  # an empty one would become an empty dict
            raise TypeError
        return dict(query)
    except (TypeError, ValueError):
        raise TypeError(f"params.query has to be a mapping, not {query!r}") from None


_QUERY_WORDS: Final = frozenset({"where", "filter", "filters", "criteria", "conditions"})
_QUERY_NAMES: Final = frozenset({"limit", "skip", "sort", "select", "or", "and"})


def _explain(names: tuple[str, ...], call: str, elsewhere: Mapping[str, str]) -> str:
    """Return what to write in place of params that nobody has declared."""
    from difflib import get_close_matches  # noqa: PLC0415  # only a slip pays its import

    near = get_close_matches(names[0], sorted(_DECLARED), 1, 0.7)
    fields = ", ".join(f"{('$' + name if name in _QUERY_NAMES else name)!r}: ..." for name in names)
    if names[0] in _NEVER_SCALARS:
        hint = f"to select by a property of that name, write query={{{fields}}}"
    elif names[0] in elsewhere:
        hint = f"write {elsewhere[names[0]]}"
    elif near:
        hint = (
            f"did you mean {near[0]}={{...}}?" if near == ["query"] else f"did you mean {near[0]}?"
        )
    elif names[0] in _QUERY_WORDS:
        hint = "what selects records is called query: query={...}"
    else:
        hint = f"to select records, give a query as query={{...}}, here query={{{fields}}}"
        if not any(name.startswith("$") or name in _QUERY_NAMES for name in names):
            declared = ", ".join(map(repr, names))
            hint += (
                f"; if a hook or a service reads it, declare it once: Params.declare({declared})"
            )
    listed = ", ".join(map(repr, names))
    if names[0] in _NEVER_SCALARS:
        return f"{call} was given {listed} as a single value and no query; {hint}"
    return f"{call} was given {listed}, which no param is called; {hint}"


def _attributes(params: Params | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(params, Params | Mapping):
        raise TypeError(f"params has to be a mapping or Params, not {params!r}")
    return params.__dict__ if isinstance(params, Params) else params


def _replaced(name: str, consequence: str) -> str:
    return (
        f"context.params was given something without a {name}, so the call would {consequence};"
        " set what is to be selected as context.params.query = {...}, and what hooks add as an"
        " attribute, context.params.user = ..., or keep the rest:"
        " context.params = {**context.params, ...}"
    )


class _InParams:
    """A name of params that a hook looked for on the context, where it would mean nothing."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._text = f"a context has no {name!r}; write context.params.{name}"

    def __get__(self, context: Any, owner: type) -> Any:
        raise AttributeError(self._text)

    def __set__(self, context: Any, value: Any) -> None:
        raise AttributeError(f"{self._text} = ...")


class HookContext:
    """All that is known of one call while it runs; hooks read and change it.

    Attributes:
        app: The application.
        service: The handle of the service that is called.
        path: The path of the service, without slashes at its ends.
        method: The name of the method.
        type: ``"around"``, ``"before"``, ``"after"`` or ``"error"``: which kind of hook runs now.
        id: The id of get, update, patch and remove; None where several records are meant.
        data: The data of create, update, patch and custom methods.
        params: The `Params` of the call. A mapping that a hook puts in their place becomes params.
        result: What the method answered, `UNSET` before that. A hook that sets it before the
            method ran takes the method's place.
        dispatch: What clients get in place of ``result``, `UNSET` where it is the same.
        error: The exception, in error hooks. One that sets ``result`` there recovers the call.
        event: The event to emit after the call, None for none.
        http: ``status``, ``headers`` and ``location`` of the HTTP answer.
        caller: The handle of the application that this one is part of, where the call came by it.
    """

    type: str = "around"
    result: Any = UNSET
    dispatch: Any = UNSET
    error: BaseException | None = None
    caller: Any = None

    if not TYPE_CHECKING:  # checkers know none of these
        # Other names are free for hooks; these would be lost, and with them who may see what.
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
        self.app = app
        self.service = service
        self.path: str = service.path
        self.method = method
        self.id = id
        self.data = data
        self._params = params
        self.event: str | None = EVENT_OF_METHOD.get(method)
        self.http: dict[str, Any] = {}

    @property
    def params(self) -> Params:
        """The `Params` of the call.

        Raises:
            TypeError: When it is set: the value is neither `Params` nor a mapping, or a mapping
                without a query, or it has no provider where the call came from outside.
        """
        return self._params

    @params.setter
    def params(self, value: Params | Mapping[str, Any]) -> None:
        if not isinstance(value, Params):  # such as {**context.params, "user": ann}
            given = _attributes(value)
            query = given.get("query")
            if query is None:
                raise TypeError(_replaced("query", "select everything"))
            made = Params(value)
            if isinstance(query, dict):
                made.query = copy(query)  # one that a schema has checked stays one
            value = made
        if self._params.provider is not None and "provider" not in value:
            raise TypeError(_replaced("provider", "count as an internal one"))
        value._undeclared = ()  # noqa: SLF001  # what a hook adds is an attribute
        self._params = value

    def __repr__(self) -> str:
        # A repr ends up in logs.
        hidden = self.id is not None and getattr(self.service, "secret_ids", False)
        shown = "..." if hidden else repr(self.id)
        return f"<HookContext {self.type} {self.path}.{self.method} id={shown}>"
