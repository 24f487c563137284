"""The real-time connection of a client, and the events that it gets.

Transports (`alula.realtime`) make connections; channels and services use them.
"""

from __future__ import annotations

import asyncio
import os
from base64 import urlsafe_b64encode  # `secrets` is slow to import, and clients import this, too
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

__all__ = [
    "Connection",
    "Event",
    "EventServer",
    "Link",
    "accept_sign_in",
    "begin_call",
    "client_key",
    "is_outdated_call",
    "user_id_of",
]

T = TypeVar("T")

NO_VALUES: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(slots=True)  # not frozen, which takes twice as long to make
class Event:
    """An event of a service, on its whole way from the call that caused it to the sockets.

    Other processes get all of it except ``position`` and ``frames``, so it never holds headers or
    tokens.

    Args:
        path: The path of the service, "" for a signal (`Channels.signal`).
        name: The name of the event or signal.
        record: The record as the application sees it: publishers get it, and queries of streams
            are matched with it.
        data: What clients get, without redacted parts; ``record`` itself if they get all of it.
        origin: A random name of the process that published it; a process ignores its own events
            when a bus brings them back.
        sequence: The number of the event there, counted from 1 without gaps.
        route: The values of the placeholders in the path, if the event belongs to a call.
        method: The method that was called, "" for an event that the service emitted itself.
        id: The id that the method got.
        query: The query of the call. Empty without a bus, as nobody needs it then.
        provider: The transport of the call, None for an internal call.
        user: The id of the user as a record, such as ``{"id": 7}``; None for nobody. Also None
            without a bus.

    Attributes:
        position: The position of the event in the event log, None without a log.
        frames: The event as transports send it, by the function that encodes it. It is encoded
            once for each transport, however many connections get it.
    """

    path: str
    name: str
    record: Any
    data: Any
    _: KW_ONLY
    origin: str = ""
    sequence: int = 0
    route: Mapping[str, str] = field(default_factory=lambda: NO_VALUES)
    method: str = ""
    id: Any = None
    query: Mapping[str, Any] = field(default_factory=lambda: NO_VALUES)
    provider: str | None = None
    user: Mapping[str, Any] | None = None
    position: str | None = field(default=None, init=False, compare=False)
    frames: dict[object, Any] = field(default_factory=dict[object, Any], init=False, compare=False)

    def __repr__(self) -> str:
        return f"<Event {self.path} {self.name}>"  # without the record, which may hold secrets

    def with_data(self, data: object) -> Event:
        """Return the same event with other data for clients."""
        return replace(self, data=data)

    def encoded(self, encode: Callable[[Event], T]) -> T:
        """Return ``encode(event)``, which is called once for all connections."""
        if encode not in self.frames:
            self.frames[encode] = encode(self)
        encoded: T = self.frames[encode]
        return encoded


class EventServer(NamedTuple):
    """Where clients of a transport get events, for the description of the API.

    Attributes:
        transport: ``"socketio"`` or ``"sse"``.
        path: Where clients connect. For ``"sse"``, the path of streams of several services.
        has_websocket: Whether clients can use a websocket.
    """

    transport: str
    path: str
    has_websocket: bool = False

    @property
    def title(self) -> str:
        """A few words for people who read the description."""
        if self.transport == "sse":
            return "server-sent events; each service has a stream, too"
        return "socket.io"


class Link(Protocol):
    """How a connection reaches its client; each transport has its own.

    Attributes:
        queued: How many messages wait for the client to read.
    """

    @property
    def queued(self) -> int:
        """See above."""
        ...

    def deliver(self, event: Event) -> None:
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
        link: Sends events to the client.
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
        on_change: Called when its user or its channels have changed, None for nobody; live lists
            are read again then.

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
        "deliver",
        "id",
        "is_asleep",
        "is_open",
        "joined_at",
        "on_change",
        "sign_in",
    )

    deliver: Callable[[Event], None]  # sends an event to the client, if the connection is open
    id: str
    is_asleep: bool
    is_open: bool
    joined_at: float
    on_change: Callable[[], object] | None
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
        self.deliver = link.deliver  # directly: this runs for each event and connection
        # The channels that it is in, oldest first, with the tables of members that list it. There
        # are several tables if an application and one that it mounts have a channel of that name.
        self._names: dict[str, tuple[Any, ...]] = {}
        self._joining: Collection[asyncio.Task[Any]] = ()
        self.is_open = True
        self.is_asleep = False
        self.joined_at = 0.0
        self.on_change = None
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

    def changed(self) -> None:
        """Tell that its user or its channels have changed."""
        if self.on_change is not None:
            self.on_change()

    async def wait_until_joined(self, seconds: float = 5) -> None:
        """Wait for asynchronous listeners of ``connection``, which may join channels.

        Args:
            seconds: How long at most.
        """
        if self._joining:
            await asyncio.wait(self._joining, timeout=seconds)

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
    """Return whom limits count a client as: its user, or else its address.

    Returns:
        None for calls of the server itself, and for clients without user and address.
    """
    user_id = user_id_of(attributes)
    if user_id is not None:
        return "user", user_id
    ip = attributes.get("ip")
    return None if ip is None else ("address", str(ip))


class _Call:
    """The call or join that runs in the current context, and the sign-in that it began with."""

    __slots__ = ("connection", "sign_in")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.sign_in = connection.sign_in


_current_call: Final[ContextVar[_Call | None]] = ContextVar("_current_call", default=None)


def begin_call(connection: Connection) -> None:
    """Remember who is signed in on a connection when a call or a join of its client begins.

    If that user signs out meanwhile, the call and its tasks can no longer join channels. Call it
    only where somebody is signed in: other calls have nothing to lose.
    """
    _current_call.set(_Call(connection))


def accept_sign_in(connection: Connection) -> None:
    """Accept a sign-in or sign-out on a connection that the current call itself has made."""
    call = _current_call.get()
    if call is None:
        _current_call.set(_Call(connection))
    elif call.connection is connection:
        call.sign_in = connection.sign_in


def is_outdated_call(connection: Connection) -> bool:
    """Tell whether the user who began the current call has signed out of the connection."""
    call = _current_call.get()
    if call is None or call.connection is not connection or call.sign_in is None:
        return False
    current = connection.sign_in
    return current is not call.sign_in and not (current and call.sign_in.has_same_user(current))
