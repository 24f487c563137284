"""What a client is configured with: `socketio`, the connection, and its services and events."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit
from weakref import WeakSet

from alula._context import HookContext, Params
from alula._events import loop_is_running
from alula._service import ServiceHandle
from alula._user_code import explain_twin
from alula._wire import VERSION
from alula.client._codec import fill_route
from alula.client._connection import (
    Connection,
    RemoteService,
    StoredSignIn,
    check_timeout,
    read_options,
)
from alula.client._fetch import in_browser
from alula.client._live_list import ListSink
from alula.client._portal import Portal, transport_for
from alula.client._response_stream import ResponseStream
from alula.client._socketio._errors import EventsLost
from alula.client._socketio._listeners import ListenerThread
from alula.client._socketio._live_feed import SocketFeed
from alula.client._socketio._session import Answer, SocketRequest
from alula.client._socketio._settings import SocketSettings
from alula.client._socketio._streams import EventStream, ServiceEvent, SyncEventStream
from alula.client._socketio._transport import SocketioTransport
from alula.client._streamed_items import BatchedItems
from alula.client._transport import Transport, run_sync
from alula.errors import BadRequest, FrameworkError
from alula.types import EVENT_OF_METHOD, ID_METHODS, METHODS_WITHOUT_DATA, Id, is_mapping

__all__ = ["SocketConnection", "SocketService", "socketio"]

_CONNECT_TIMEOUT: Final = 20.0  # seconds
_METHOD_OF_EVENT: Final = {event: method for method, event in EVENT_OF_METHOD.items()}
_SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_OURS: Final = frozenset({"additional_headers", "max_size", "uri"})
"""Options of websockets that have a name of their own here."""


class SocketService(RemoteService):
    """A service that is called over socket.io; its events come from the server.

    Attributes:
        events: The standard events: the server sends them, so calls of this client do not emit
            them once more.
    """

    events = tuple(EVENT_OF_METHOD.values())
    connection: SocketConnection

    def __init__(self, connection: SocketConnection, name: str) -> None:
        super().__init__(connection, name)
        self.connection = connection


class SocketConnection(Connection):
    """One connection over socket.io, which stays open and is opened again when it breaks.

    Its client emits ``"connect"`` with whether no event was missed (``recovered``), and
    ``"disconnect"`` with a reason.

    Attributes:
        is_connected: Whether calls can be sent at once.
    """

    keeps_sign_in = True
    repeatable = frozenset({"find", "get"})

    def __init__(
        self, base: str, settings: SocketSettings, options: Mapping[str, Any] | None
    ) -> None:
        super().__init__(base, self._make, options, SocketService)
        self._settings = settings
        self._listeners = ListenerThread()
        self._is_wanted = False
        self._emit: Callable[..., object] | None = None
        self._sign_in: Callable[[], StoredSignIn | None] = lambda: None
        self._handles: dict[str, list[ServiceHandle]] = {}
        # Weak: a stream that nobody reads any more must not collect events.
        self._streams: dict[str, WeakSet[EventStream[Any] | SyncEventStream[Any]]] = {}
        self._lists: dict[tuple[str, str], SocketFeed] = {}
        self._list_names = itertools.count(1)

    @property
    def is_connected(self) -> bool:
        """Whether calls can be sent at once."""
        return self._transport is not None and self._socket.is_ready

    def _make(self, synchronous: bool) -> Transport[SocketRequest, Answer | ResponseStream]:
        if in_browser():
            raise TypeError("socketio() needs the sockets of an operating system; use rest() here")
        # Now, not with the first call: it tells whether the library is installed.
        import alula.client._socketio._websocket  # noqa: F401, PLC0415  # an extra

        return transport_for(self._make_transport_of_process, synchronous=synchronous)

    def _make_transport_of_process(self) -> SocketioTransport:
        # A process that is forked makes another transport, and needs another thread for listeners.
        self._listeners = ListenerThread()
        return SocketioTransport(self._settings, self)

    def belong_to(
        self, emit: Callable[..., object], sign_in: Callable[[], StoredSignIn | None]
    ) -> None:
        """Learn of the client that is configured with it.

        Raises:
            RuntimeError: It has a client: the server knows one user on it.
        """
        if self._emit is not None:
            raise RuntimeError(f"{self!r} has a client already; create another one for this client")
        self._emit, self._sign_in = emit, sign_in

    # -- calls ---------------------------------------------------------------------------------

    def request(
        self, name: str, method: str, id: Id, data: object, params: Params
    ) -> SocketRequest:
        """Return the packet of a call.

        Raises:
            BadRequest: An id is missing, or a placeholder has no value.
            TypeError: The call has headers, which only a whole connection has.
        """
        connection = params.get("connection")
        has_headers = isinstance(connection, Mapping) and "headers" in connection
        # With a provider, a server passes the call of a client on, and they are of its request.
        if has_headers or (params.get("headers") and params.get("provider") is None):
            # Not ignored: with the `Authorization` of somebody else it would be another call.
            raise TypeError(
                "a call over socket.io has no headers of its own; give them to the connection:"
                " socketio(url, options={'headers': ...})"
            )
        path = fill_route(name, params.get("route", {}), _plain_segment)
        arguments: list[object] = [method, path]
        if method in ID_METHODS:
            if id is None and method == "get":
                raise BadRequest("id for .get is required")
            arguments.append(id)
        if method not in METHODS_WITHOUT_DATA:
            arguments.append(data)
        arguments.append(params.query)
        url = f"{self.base}/{path}"
        return SocketRequest(method, url, arguments, repeatable=method in self.repeatable)

    def read(self, request: SocketRequest, response: Answer | ResponseStream) -> object:
        """Return the result in an answer, or a stream of items."""
        if isinstance(response, ResponseStream):
            return self._stream(request, BatchedItems(request, response))
        return response.read(request)

    async def open(self) -> None:
        """Open the connection now and wait until it is ready.

        Raises:
            NotConnected: It took too long.
            FrameworkError: The server refused the connection.
        """
        request = SocketRequest("connect", self._settings.shown_url, (), repeatable=True)
        socket = self._socket
        if (portal := self._portal) is not None:
            portal.run(lambda socket: socket.open(request))
        else:
            await socket.open(request)

    async def close(self) -> None:
        """Close the connection and end the streams; the next call opens a new one."""
        await super().close()
        self._listeners.close()
        for stream in self._all_streams():
            stream.end()
        for feed in list(self._lists.values()):
            feed.end()

    @property
    def _portal(self) -> Portal[SocketioTransport] | None:
        transport: Any = self._transport
        return transport if self._synchronous else None

    @property
    def _socket(self) -> SocketioTransport:
        """The transport, also that in a portal."""
        if self._transport is None:
            self.bind(synchronous=False)
        transport: Any = self._transport
        return transport.transport if self._synchronous else transport  # type: ignore[no-any-return]  # the line above hides it

    # -- listeners and streams -----------------------------------------------------------------

    def attach(self, name: str, handle: ServiceHandle) -> None:
        """Emit the events of the service ``name`` of the server at a handle."""
        self._handles.setdefault(name, []).append(handle)

    def start(self) -> None:
        """Connect in the background, where an event loop is running or the client is synchronous.

        Otherwise ``async with``, the first call or the first read from a stream connects.
        """
        self._is_wanted = True
        socket = self._socket
        if (portal := self._portal) is not None:
            portal.run(_start)
        elif loop_is_running():
            socket.start()

    def loop_runs(self) -> None:
        """Connect now, if there are listeners or streams."""
        if self._is_wanted:
            self.start()

    def stream(self, name: str, names: tuple[str, ...]) -> EventStream[Any] | SyncEventStream[Any]:
        """Return a stream of the events of the service ``name`` of the server."""
        stream: EventStream[Any] | SyncEventStream[Any]
        if self._synchronous:
            stream = SyncEventStream(names, lambda: run_sync(self.open()))
        else:
            stream = EventStream(names, self.open)
        self._streams.setdefault(name, WeakSet()).add(stream)
        self.start()
        return stream

    # -- live lists ----------------------------------------------------------------------------

    def list_feed(
        self, name: str, params: Callable[[], Awaitable[Params]], sink: ListSink
    ) -> SocketFeed:
        """Return what brings the messages of a list (see `Connection.list_feed`)."""
        return SocketFeed(self, name, params, sink)

    def run_feed(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine of a list in the event loop of a synchronous client."""
        portal = self._portal
        assert portal is not None  # noqa: S101  # for type checkers
        portal.run(lambda _: call())

    async def send_now(self, request: SocketRequest) -> Answer:
        """Send a call, in the event loop of the connection."""
        answer = await self._socket.send(request, self._default_options)
        if isinstance(answer, Answer):
            return answer
        await answer.aclose()  # of a method that streams, which no call of a list is
        return Answer(None, None)

    def list_request(self, name: str, method: str, data: object, params: Params) -> SocketRequest:
        """Return the packet of a call of ``live``."""
        return self.request(name, method, None, data, params)

    def add_list(self, path: str, feed: SocketFeed) -> str:
        """Return a new name for a list, whose events go to a feed."""
        name = f"l{next(self._list_names)}"
        self._lists[path, name] = feed
        return name

    def remove_list(self, path: str, name: str) -> None:
        """Forget a list."""
        self._lists.pop((path, name), None)

    def _all_streams(self) -> list[EventStream[Any] | SyncEventStream[Any]]:
        return [stream for streams in list(self._streams.values()) for stream in list(streams)]

    def _run(self, listener: Callable[[], object]) -> None:
        if self._synchronous:
            self._listeners.call(listener)
        else:
            listener()

    # -- what the transport tells --------------------------------------------------------------

    def event(self, path: str, name: str, data: object) -> None:
        """Take an event of the service at a path."""
        if name == "live" and is_mapping(data):
            feed = self._lists.get((path, str(data.get("list"))))
            if feed is not None:
                feed.take(data)
                return
        for stream in list(self._streams.get(path, ())):
            stream.put(ServiceEvent(path, name, data))
        for handle in self._handles.get(path, ()):
            values: tuple[object, ...] = (data,)
            if name in _METHOD_OF_EVENT:
                method = _METHOD_OF_EVENT[name]
                context = HookContext(handle.app, handle, method, Params())
                context.result = data
                values = (data, context)
            self._run(partial(handle.emit, name, *values))

    def stored_sign_in(self) -> StoredSignIn | None:
        """Return the sign-in to renew, None without a token."""
        sign_in = self._sign_in()
        return sign_in if sign_in is not None and sign_in.access_token else None

    def connected(self, *, recovered: bool, again: bool) -> None:
        """Hear that the connection is ready."""
        for feed in list(self._lists.values()) if again else ():
            feed.joined(recovered=recovered)
        if again and not recovered:
            for stream in self._all_streams():
                stream.fail(EventsLost("the connection broke; events may be missing here"))
        if self._emit is not None:
            self._run(partial(self._emit, "connect", recovered))

    def disconnected(self, reason: str) -> None:
        """Hear that the connection broke."""
        for feed in list(self._lists.values()):
            feed.broke()
        if self._emit is not None:
            self._run(partial(self._emit, "disconnect", reason))

    def refused(self, error: FrameworkError) -> None:
        """Hear that the server refuses the connection."""
        for stream in self._all_streams():
            stream.fail(error)


async def _start(socket: SocketioTransport) -> None:
    socket.start()


def _plain_segment(name: str, value: object) -> str:
    text = str(value)
    if "/" in text:
        raise BadRequest(f"{name} is {text!r}; over socket.io a path cannot hold a slash in it")
    return text


def socketio(
    url: str,
    *,
    path: str = "/socket.io/",
    query: Mapping[str, str] | None = None,
    auth: Mapping[str, Any] | None = None,
    connect_timeout: float = _CONNECT_TIMEOUT,
    options: Mapping[str, Any] | None = None,
    websocket: Mapping[str, Any] | None = None,
) -> SocketConnection:
    """Return a connection over socket.io, for calls and for events as they happen.

    The client is signed in again, with its stored token, after each reconnect and before the calls
    that wait. A call that was sent and got no response before the connection broke raises
    `Unavailable`, unless it is a ``find`` or ``get``: these are sent once more.

    Args:
        url: The address of the server, such as ``https://host``.
        path: The path of its socket.io transport.
        query: Parameters of the handshake.
        auth: Data of the handshake, for middleware of the server.
        connect_timeout: Seconds that calls wait for a connection, and that one may take.
        options: ``headers`` of the handshake, ``timeout``, ``max_response_size`` and ``retries``,
            as for `rest` (see `Options`).
        websocket: Options of ``websockets.connect``, such as ``ssl`` and ``proxy``.

    Raises:
        TypeError: ``url`` is not a text.
        ValueError: The URL or an option is not valid.

    Examples:
        ```python
        from alula.client import create_client, socketio


        async def watch():
            async with create_client().configure(socketio("http://localhost:3030")) as client:
                async for event in client.service("messages").events("created"):
                    print(event.data["text"])
        ```
    """
    if not isinstance(url, str):
        raise TypeError(f"socketio({url!r}): give a URL; {explain_twin('alula.client.socketio')}")
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(
            f"socketio({url!r}): the address of a server is needed, such as http://localhost:3030"
        )
    # Credentials in a URL would get into logs and error texts.
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"socketio({parts.scheme}://{parts.hostname}...): give the address of the server alone;"
            " the path of its transport is path=..., parameters are query={...}, and credentials"
            " are headers"
        )
    given = dict(websocket or {})
    if taken := sorted(given.keys() & _OURS):
        raise ValueError(
            f"the websocket options {', '.join(taken)} are set by options: headers and"
            " max_response_size"
        )
    check_timeout(connect_timeout)
    base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    address = f"{_SCHEMES[parts.scheme]}://{parts.netloc}/{quote(path.strip('/'))}/"
    text = urlencode({**(query or {}), "EIO": VERSION, "transport": "websocket"})
    read = read_options(options)
    settings = SocketSettings(
        url=f"{address}?{text}",
        shown_url=address,
        headers=read.headers,
        auth=dict(auth or {}),
        connect_timeout=connect_timeout,
        max_size=read.max_response_size,
        options=given,
    )
    return SocketConnection(base, settings, options)
