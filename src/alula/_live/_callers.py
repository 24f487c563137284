"""Which lists share their reads: those of callers between whom `find` cannot tell.

A list is read as one caller, and what `find` returns goes to all callers that are equal: the same
attributes, such as the user, by value. Headers, the address and the connection itself differ almost
always, and hooks hardly look at them. So they do not count until a hook has looked: the params of
these reads note it. From then on, what was looked at has to be equal, too.

Whatever way of Python a hook takes to read params, it is noted: `getattr`, `vars`, ``**``, `copy`.
Code that reads all of them at once counts as code that looks at the connection, so its lists share
only with those of the same connection. Only calls of ``dict``'s own methods on ``vars(params)``,
such as ``dict.get(vars(params), "ip")``, go unnoticed.
"""

from __future__ import annotations

from collections.abc import (
    Hashable,
    ItemsView,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, cast

from alula._connection import Connection
from alula._context import Params, RequestParams, connection_params
from alula.types import is_array, is_mapping

if TYPE_CHECKING:
    from alula._live._groups import LiveList

__all__ = ["caller_of", "key_of", "looks_at_connection", "watched_params"]

CONNECTION: Final = "connection"
"""What has been looked at if it may have been anything: the lists of one connection share reads."""

ADDRESS: Final = "ip"

MAX_HEADERS: Final = 20
"""If hooks look at more headers than that, lists of different connections share nothing."""

_NOT_COMPARED: Final = frozenset({"headers", "ip"})
_OF_TOKEN: Final = frozenset({"accessToken"})
_OF_PAYLOAD: Final = frozenset({"exp", "iat", "jti", "nbf"})
"""What differs between two tokens of one user that say the same."""


class _SeenHeaders(MutableMapping[str, str]):
    """Headers that note which of them hooks look at.

    Args:
        headers: The headers; these are not changed.
        seen: Gets ``header:`` and the name, or `CONNECTION` for all.
    """

    __slots__ = ("_headers", "_seen")  # vars(headers) would be a way around

    def __init__(self, headers: Mapping[str, str], seen: set[str]) -> None:
        self._headers = dict(headers)
        self._seen = seen

    def __getitem__(self, name: str) -> str:
        self._seen.add(f"header:{name}")
        return self._headers[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._headers[name] = value

    def __delitem__(self, name: str) -> None:
        del self._headers[name]

    def __iter__(self) -> Iterator[str]:
        self._seen.add(CONNECTION)
        return iter(self._headers)

    def __len__(self) -> int:
        self._seen.add(CONNECTION)
        return len(self._headers)

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        """Return how `copy` and `pickle` make a copy: a dict, whose reads nobody notes."""
        self._seen.add(CONNECTION)
        return dict, (self._headers.copy(),)


class _SeenAttributes(dict[str, Any]):
    """The ``__dict__`` of params, for hooks that read it: it notes what they look at.

    Python itself reads attributes past these methods, so `_WatchedParams` has properties. Names
    alone say nothing that differs between callers that are equal.

    Args:
        attributes: The attributes.
        seen: Gets `ADDRESS` or `CONNECTION`, and `CONNECTION` for reads of all values.
    """

    __slots__ = ("_seen",)

    def __init__(self, attributes: Mapping[str, Any], seen: set[str]) -> None:
        super().__init__(attributes)
        self._seen = seen

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # without overloads
        self._note(name)
        return super().get(name, default)

    def pop(self, name: str, *default: object) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # without overloads
        self._note(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: object = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # without overloads
        self._note(name)
        return super().setdefault(name, default)

    def __iter__(self) -> Iterator[str]:
        """Yield the names. Without this method, `dict(...)` and ``**`` copy past `__getitem__`."""
        return super().__iter__()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # the type of dict's own view is private
        return self._all().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # the type of dict's own view is private
        return self._all().values()

    def popitem(self) -> tuple[str, Any]:
        self._seen.add(CONNECTION)
        return super().popitem()

    def copy(self) -> dict[str, Any]:
        return self._all()

    def __or__(self, other: Any) -> Any:
        return self._all() | other

    def __ror__(self, other: Any) -> Any:
        return other | self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    def __ne__(self, other: object) -> bool:
        return self._all() != other

    __hash__ = None  # mutable, so it cannot be a key

    def __repr__(self) -> str:
        return repr(self._all())

    def _note(self, name: str) -> None:
        if name in {ADDRESS, CONNECTION}:
            self._seen.add(name)

    def _all(self) -> dict[str, Any]:
        """Return all attributes to code that may look at each of them."""
        self._seen.add(CONNECTION)
        return self.unnoted()

    def unnoted(self) -> dict[str, Any]:
        """Return a copy for our own code, which looks at no value."""
        return dict(super().items())


class _WatchedParams(RequestParams):
    """The params of a read, which note what hooks look at besides the attributes."""

    __slots__ = ("_seen",)

    _seen: set[str]

    @property
    def ip(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]  # hooks read and set it as before
        """The address of the caller."""
        return self.__dict__.get("ip")

    @ip.setter
    def ip(self, value: str | None) -> None:
        self.__dict__["ip"] = value

    @property
    def connection(self) -> Connection | None:  # pyright: ignore[reportIncompatibleVariableOverride]  # as for ip
        """The connection of the caller."""
        return self.__dict__.get("connection")

    @connection.setter
    def connection(self, value: Connection | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # as for ip
        self.__dict__["connection"] = value

    @property
    def _undeclared(self) -> tuple[str, ...]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # only read when params are copied
        """Nothing. Code that makes other params of these may look at all of them."""
        self._seen.add(CONNECTION)
        return ()

    def check_names(self, call: str, elsewhere: Mapping[str, str] | None = None) -> None:
        """Accept all names: these params are made from a connection, as those of a request."""

    def copy(self, **changes: Any) -> Params[Any]:
        return _watched(self._plain().copy(**changes).__dict__, self._seen)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Return how `copy` and `pickle` make a copy: params whose reads nobody notes."""
        self._seen.add(CONNECTION)
        return self._plain().__reduce_ex__(protocol)

    def _plain(self) -> RequestParams:
        plain = RequestParams.__new__(RequestParams)
        plain.__dict__.update(cast("_SeenAttributes", self.__dict__).unnoted())
        return plain


def _watched(attributes: Mapping[str, Any], seen: set[str]) -> _WatchedParams:
    params = _WatchedParams.__new__(_WatchedParams)
    params._seen = seen  # noqa: SLF001  # of this file
    params.__dict__ = _SeenAttributes(attributes, seen)
    return params


def watched_params(
    connection: Connection, query: dict[str, Any], route: Mapping[str, str], seen: set[str]
) -> Params[Any]:
    """Return the params of a read as the caller of a connection.

    Args:
        connection: The connection.
        query: The query.
        route: The values of placeholders in the path.
        seen: Gets the names of what hooks look at besides the attributes.

    Raises:
        NotAuthenticated: The token of the connection has expired.
    """
    params = connection_params(connection, query, route)
    params.headers = _SeenHeaders(connection.headers, seen)
    return _watched(params.__dict__, seen)


def looks_at_connection(seen: frozenset[str]) -> bool:
    """Tell whether hooks have looked at the connection, or at so much that each has its reads."""
    return CONNECTION in seen or len(seen) > MAX_HEADERS


def caller_of(connection: Connection, seen: frozenset[str]) -> Hashable:
    """Return the values of what hooks have looked at."""
    if looks_at_connection(seen):
        return connection.id
    return tuple((name, _value(connection, name)) for name in sorted(seen))


def _value(connection: Connection, name: str) -> str | None:
    return connection.ip if name == ADDRESS else connection.headers.get(name.partition(":")[2])


def key_of(opening: LiveList, seen: frozenset[str]) -> Hashable:
    """Return what lists have in common that share their reads.

    Args:
        opening: A list.
        seen: What the hooks of its service have looked at.
    """
    attributes = opening.connection.__dict__
    compared = {name: attributes[name] for name in attributes.keys() - _NOT_COMPARED}
    try:
        key = (
            opening.handle,
            _frozen(_without_token(compared)),
            caller_of(opening.connection, seen),
            _frozen(opening.route),
            _frozen(opening.query),
        )
        hash(key)
    except TypeError:
        return opening  # what cannot be compared is not shared
    return key


def _without_token(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes without what differs between two tokens of a user that say the same."""
    authentication = attributes.get("authentication")
    payload = authentication.get("payload") if is_mapping(authentication) else None
    if not is_mapping(authentication) or not is_mapping(payload):
        return attributes
    said = {name: payload[name] for name in payload.keys() - _OF_PAYLOAD}
    kept = {name: authentication[name] for name in authentication.keys() - _OF_TOKEN}
    return {**attributes, "authentication": {**kept, "payload": said}}


def _frozen(value: object) -> Hashable:
    if is_mapping(value):
        return frozenset((name, _frozen(inner)) for name, inner in value.items())
    if is_array(value):
        return ("[", *map(_frozen, value))
    if isinstance(value, Hashable):
        return type(value), value
    raise TypeError
