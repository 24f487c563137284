"""What travels through a call: the caller's `Params`, and the `HookContext` around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from alula.types import EVENT_OF_METHOD, UNSET, Id

__all__ = ["HookContext", "Params", "RequestParams"]


class Params:
    """The parameters of one call beside id and data.

    Of all of them only ``query`` comes from a client; the others are set by the server, its hooks
    and its middleware. Further attributes may be added at will: ``params.tenant = "acme"``.
    Items work like attributes: ``params["tenant"]``.

    Args:
        params: Params or a mapping to begin with; it stays as it is.
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
        TypeError: ``params`` or the query is no mapping.
    """

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
            return
        own = self.__dict__
        if params is not None:
            own.update(_attributes(params))
        if values:
            own.update(values)
        query = own.get("query")
        try:
            # A copy: hooks may change the query of a call, never the caller's own mapping.
            own["query"] = {} if query is None else dict(query)
        except (TypeError, ValueError):
            raise TypeError(f"params.query has to be a mapping, not {query!r}") from None

    @classmethod
    def adopt(cls, values: dict[str, Any]) -> Params:
        """Return params that live in ``values`` itself; the quick way for transports.

        Args:
            values: Attributes by name. The dict and its ``query``, which it must have, were made
                for this call, and nobody else keeps them.
        """
        params = cls.__new__(cls)
        params.__dict__ = values
        return params

    def __getattr__(self, name: str) -> Any:
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
        return iter(self.__dict__)

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
        """Return the names that were set, so that ``{**params}`` works."""
        return iter(self.__dict__)

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


_WELL_KNOWN = frozenset(Params.__annotations__)


def _attributes(params: Params | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(params, Params | Mapping):
        raise TypeError(f"params has to be a mapping or Params, not {params!r}")
    return params.__dict__ if isinstance(params, Params) else params


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
    """

    type: str = "around"
    result: Any = UNSET
    dispatch: Any = UNSET
    error: BaseException | None = None

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
            TypeError: When it is set: the value is neither `Params` nor a mapping.
        """
        return self._params

    @params.setter
    def params(self, value: Params | Mapping[str, Any]) -> None:
        if not isinstance(value, Params):  # such as {**context.params, "user": ann}
            query = _attributes(value).get("query")
            value = Params(value)
            if isinstance(query, dict):
                value.query = copy(query)  # one that a schema has checked stays one
        self._params = value

    def __repr__(self) -> str:
        return f"<HookContext {self.type} {self.path}.{self.method} id={self.id!r}>"
