"""Which lists share their reads: those of callers between whom `find` cannot tell.

A list is read as one caller, and what `find` returns goes to all callers that are equal: the same
attributes, such as the user, by value. Headers, the address and the connection itself differ almost
always, and hooks hardly look at them. So they do not count until a hook has looked: the params of
these reads note it. From then on, what was looked at has to be equal, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

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


class _WatchedParams(RequestParams):
    """The params of a read, which note what hooks look at besides the attributes."""

    __slots__ = ("_seen",)

    _seen: set[str]

    @property
    def ip(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]  # hooks read and set it as before
        """The address of the caller."""
        self._seen.add(ADDRESS)
        return self.__dict__.get("ip")

    @ip.setter
    def ip(self, value: str | None) -> None:
        self.__dict__["ip"] = value

    @property
    def connection(self) -> Connection | None:  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        """The connection of the caller."""
        self._seen.add(CONNECTION)
        return self.__dict__.get("connection")

    @connection.setter
    def connection(self, value: Connection | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        self.__dict__["connection"] = value

    @property
    def _undeclared(self) -> tuple[str, ...]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # only read when params are copied
        """Nothing. Whoever copies these params as others may look at all of them."""
        self._seen.add(CONNECTION)
        return ()

    def check_names(self, call: str, elsewhere: Mapping[str, str] | None = None) -> None:
        """Accept all names: these params are made from a connection, as those of a request."""

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def keys(self) -> Iterator[str]:
        self._seen.add(CONNECTION)
        return super().keys()

    def copy(self, **changes: Any) -> Params[Any]:
        plain = RequestParams.__new__(RequestParams)
        plain.__dict__.update(self.__dict__)
        return _watched(plain.copy(**changes).__dict__, self._seen)

    def _note(self, name: str) -> None:
        if name in {ADDRESS, CONNECTION}:
            self._seen.add(name)


def _watched(attributes: Mapping[str, Any], seen: set[str]) -> _WatchedParams:
    params = _WatchedParams.__new__(_WatchedParams)
    params._seen = seen  # noqa: SLF001  # of this file
    params.__dict__.update(attributes)
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
