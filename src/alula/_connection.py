"""A real-time connection of a client, and the events that it gets.

Transports make connections (`alula.realtime`); channels and services use them.
"""

from __future__ import annotations

import asyncio
import os
from base64 import urlsafe_b64encode  # `secrets` is slow to import, and clients import this, too
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

__all__ = [
    "Connection",
    "EventMessage",
    "EventServer",
    "Link",
    "accept_sign_in",
    "begin_call",
    "client_key",
    "is_outdated_call",
    "user_id_of",
]

T = TypeVar("T")

NO_ROUTE: Final[Mapping[str, str]] = MappingProxyType({})


class EventMessage:
    """One event with the data that connections get, encoded once per transport.

    Attributes:
        path: The path of the service.
        event: The name of the event.
        data: What clients get; it holds no redacted record.
        record: The record as the application sees it, to match a query against.
        route: The values of the placeholders in the path, where the event is of a call.
        id: The position of the event in the event log, None without a log.
        origin: The process where the event was published.
        sequence: The number of the event there.
    """

    __slots__ = (
        "_encoded",
        "data",
        "event",
        "id",
        "origin",
        "path",
        "record",
        "route",
        "sequence",
    )

    def __init__(
        self,
        path: str,
        event: str,
        data: object,
        record: object = None,
        route: Mapping[str, str] = NO_ROUTE,
        *,
        origin: str = "",
        sequence: int = 0,
    ) -> None:
        self.path = path
        self.event = event
        self.data = data
        self.record = record
        self.route = route
        self.origin = origin
        self.sequence = sequence
        self.id: str | None = None
        self._encoded: dict[object, Any] = {}

    def __repr__(self) -> str:
        return f"<EventMessage {self.path} {self.event}>"

    def with_data(self, data: object) -> EventMessage:
        """Return the same event with other data."""
        return EventMessage(
            self.path,
            self.event,
            data,
            self.record,
            self.route,
            origin=self.origin,
            sequence=self.sequence,
        )

    def encoded(self, encode: Callable[[EventMessage], T]) -> T:
        """Return ``encode(message)``; it is called once, however many connections get the event."""
        cache = self._encoded
        if encode not in cache:
            cache[encode] = encode(self)
        encoded: T = cache[encode]
        return encoded


class EventServer(NamedTuple):
    """Where a transport brings events to clients, for descriptions of the API.

    Attributes:
        transport: ``"socketio"`` or ``"sse"``.
        path: Where clients connect; of ``"sse"``, for several services at once.
        has_websocket: Whether clients can use a websocket.
    """

    transport: str
    path: str
    has_websocket: bool = False

    @property
    def title(self) -> str:
        """What clients find there, in a few words."""
        if self.transport == "sse":
            return "server-sent events; each service has a stream, too"
        return "socket.io"


class Link(Protocol):
    """What a transport gives its connection.

    Attributes:
        queued: How many messages wait until the client reads.
    """

    @property
    def queued(self) -> int:
        """See above."""
        ...

    def deliver(self, message: EventMessage) -> None:
        """Send an event, or queue it. Returns at once and never raises."""
        ...

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:
        """Close the connection of the transport; see `Connection.close`."""
        ...


class Connection:
    """A real-time connection of a client; the same object for its whole life.

    Hooks and middleware add any attributes: ``connection.tenant = "acme"``. All but ``id`` and
    ``channels`` arrive in the params of the calls that the client makes over the connection, where
    ``params.connection`` is the connection itself. Items work like attributes.

    Args:
        link: How to reach the client.
        provider: The name of the transport, such as ``"socketio"``.
        headers: The headers of the request that opened the connection, names in lower case.
        ip: The address of the client, None if unknown.
        attributes: Further attributes.

    Attributes:
        id: A random name, unique among all processes.
        provider: As given.
        headers: As given.
        ip: As given.
        user: The record of the signed-in user, None for nobody.
        is_open: Whether it gets events; False from the moment that it is closed.
        authentication: The credentials of the user: ``{"strategy", ...}``.
        sign_in: What the authentication service keeps of the user, None for nobody.
        is_asleep: Whether its client is away, and may come back to what it has missed; set by
            the transport.
        joined_at: When it last joined a channel, in seconds since 1970; 0 before the first one.

    Examples:
        >>> from alula import App
        >>> app = App()
        >>> @app.on("connection")
        ... def join(connection):
        ...     app.channel("everyone").join(connection)
    """

    # As in `Params`: attributes of users are in __dict__, those of this class are not.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_joining",
        "_link",
        "_names",
        "id",
        "is_asleep",
        "is_open",
        "joined_at",
        "sign_in",
    )

    id: str
    is_asleep: bool
    is_open: bool
    joined_at: float
    sign_in: Any
    provider: str
    headers: Mapping[str, str]
    ip: str | None
    user: Any = None
    authentication: Mapping[str, Any] | None = None

    def __init__(
        self,
        link: Link,
        *,
        provider: str,
        headers: Mapping[str, str],
        ip: str | None,
        **attributes: Any,
    ) -> None:
        self.id = urlsafe_b64encode(os.urandom(15)).decode()
        self.provider = provider
        self.headers = headers
        self.ip = ip
        self.__dict__.update(attributes)
        self._link = link
        # Its channels, in the order in which it joined them, with the tables that have it: several
        # where an application and one that it mounts have channels of the same name.
        self._names: dict[str, tuple[Any, ...]] = {}
        self._joining: Collection[asyncio.Task[Any]] = ()
        self.is_open = True
        self.is_asleep = False
        self.joined_at = 0.0
        self.sign_in = None

    def __repr__(self) -> str:
        return f"<Connection {self.id} {self.provider}>"  # not its headers, which hold tokens

    @property
    def channels(self) -> list[str]:
        """The names of the channels that it is in."""
        return list(self._names)

    @property
    def membership(self) -> list[tuple[str, int]]:
        """The channels that it is in, sorted, each with how many applications have it.

        Equal for two connections that get the same events as far as channels decide.
        """
        return sorted((name, len(tables)) for name, tables in self._names.items())

    @property
    def queued(self) -> int:
        """How many messages wait until the client reads."""
        return self._link.queued

    async def wait_until_joined(self, seconds: float = 5) -> None:
        """Wait for asynchronous listeners of ``connection``, which may join channels.

        Args:
            seconds: How long at most.
        """
        if self._joining:
            await asyncio.wait(self._joining, timeout=seconds)

    def deliver(self, message: EventMessage) -> None:
        """Send an event to the client, unless the connection is closed."""
        if self.is_open:
            self._link.deliver(message)

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:
        """Close the connection; it gets no further event.

        Args:
            reason: For the log of the transport.
            reconnect: Whether the client may come back by itself, as after a failure of the
                network. Otherwise it is told that the server wants no connection, if the transport
                knows such a message.
        """
        self.is_open = False
        await self._link.close(reason, reconnect=reconnect)

    # -- attributes as items, as in `Params` ---------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the connection has no {name!r}; it has {', '.join(sorted(self.__dict__))}."
            f" Where it may be absent, use connection.get({name!r})"
        )

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None: ...

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, name, value)

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__ or name in _ALWAYS

    def __iter__(self) -> Iterator[str]:
        return iter((*_ALWAYS, *(name for name in self.__dict__ if name not in _ALWAYS)))

    def get(self, name: str, default: object = None) -> Any:
        """Return an attribute, or ``default`` if it is None or not set."""
        value = getattr(self, name, None)
        return default if value is None else value


_ALWAYS: Final = ("id", "provider", "headers", "ip", "user", "authentication")


class Attributes(Protocol):
    """A connection, or the params of a call."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or ``default`` if it is None or not set."""
        ...


def user_id_of(attributes: Attributes) -> str | None:
    """Return the id of the user of a connection or call as text, None for nobody."""
    user: Mapping[str, Any] | None = attributes.get("user")  # or an object with an id
    names = ("id", "_id")
    if isinstance(user, Mapping):
        found = next((user[name] for name in names if user.get(name) is not None), None)
    else:
        found = getattr(user, "id", None)
    if found is None:  # an entity of another name, or tokens without records of users
        sign_in = attributes.get("sign_in")
        authentication: Mapping[str, Any] = attributes.get("authentication") or {}
        payload: Mapping[str, Any] | None = authentication.get("payload")
        found = getattr(sign_in, "user_id", None)
        if found is None and isinstance(payload, Mapping):
            found = payload.get("sub")
    return None if found is None else str(found)


def client_key(attributes: Attributes) -> tuple[str, str] | None:
    """Return by what the shares of clients are counted: the user, or else the address.

    Returns:
        None for calls of the server itself, and for clients of which nothing is known.
    """
    user_id = user_id_of(attributes)
    if user_id is not None:
        return "user", user_id
    ip = attributes.get("ip")
    return None if ip is None else ("address", str(ip))


class _Call:
    """A call or a join that runs in the present context, and for whom."""

    __slots__ = ("connection", "sign_in")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sign_in = connection.sign_in


_current_call: Final[ContextVar[_Call | None]] = ContextVar("_current_call", default=None)


def begin_call(connection: Connection) -> None:
    """Note who is signed in on a connection while a call or a join of its client begins.

    What the call does with channels counts for this user, also in the tasks that it starts.
    """
    if connection.sign_in is not None:  # otherwise the call may do what anybody may
        _current_call.set(_Call(connection))


def accept_sign_in(connection: Connection) -> None:
    """Note that the current call itself has signed somebody in or out on its connection."""
    call = _current_call.get()
    if call is None:
        _current_call.set(_Call(connection))
    elif call.connection is connection:
        call.sign_in = connection.sign_in


def is_outdated_call(connection: Connection) -> bool:
    """Tell whether the current call is of a user who is signed in on the connection no more."""
    call = _current_call.get()
    if call is None or call.connection is not connection or call.sign_in is None:
        return False
    current = connection.sign_in
    return current is not call.sign_in and not (current and call.sign_in.has_same_user(current))
