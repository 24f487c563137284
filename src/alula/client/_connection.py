"""A connection to a server: its transport and options, and its services."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from alula._connection import Connection as RealtimeConnection
from alula._context import Params
from alula._item_stream import ItemStream
from alula.client._abort import AbortSignal
from alula.client._codec import Sendable, merge_headers
from alula.client._live_list import ListFeed, ListSink
from alula.client._retries import NO_RETRIES, Retries, read_retries
from alula.client._send_options import SendOptions
from alula.client._streamed_items import ReceivedItems
from alula.client._transport import Transport
from alula.errors import FrameworkError
from alula.types import PAGE_NAMES, STANDARD_METHODS, Id, Page, is_mapping

__all__ = [
    "Connection",
    "Options",
    "RemoteService",
    "StoredSignIn",
    "check_timeout",
    "read_options",
]

_DEFAULT_TIMEOUT: Final = 60.0  # seconds
# Sockets and browsers count timeouts as 32-bit milliseconds.
_MAX_TIMEOUT: Final = 2_000_000  # seconds
_DICT: Final[Any] = dict  # `Any`: what is in a result would be unknown
_NO_PAGE: Final = Page(total=0, limit=0, skip=0, data=[])
_RESERVED_NAMES: Final = frozenset({"connection", "custom_methods", "declare", "name", "request"})
_DEFAULT_MAX_RESPONSE_SIZE: Final = 100 * 1024 * 1024  # bytes

MakeTransport = Callable[[bool], Transport[Any, Any]]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a connection, for all its requests.

    Attributes:
        headers: Sent with each request.
        timeout: Seconds for a request, None for no limit.
        max_response_size: The largest body of a response, in bytes.
        retries: How many times, and until when, idempotent requests are sent again.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = _DEFAULT_TIMEOUT
    max_response_size: int = _DEFAULT_MAX_RESPONSE_SIZE
    retries: Retries = NO_RETRIES


def read_options(given: Mapping[str, Any] | None) -> Options:
    """Check options and fill in the defaults.

    Raises:
        ValueError: An option is unknown, or its value is not valid.
        TypeError: A header is not a string.
    """
    values = dict(given or {})
    unknown = values.keys() - Options.__dataclass_fields__.keys()
    if unknown:
        raise ValueError(
            f"unknown options: {', '.join(sorted(unknown))}; the options are"
            f" {', '.join(Options.__dataclass_fields__)}"
        )
    values["headers"] = merge_headers(values.get("headers"))
    values["retries"] = read_retries(values.get("retries"))
    check_timeout(values.get("timeout"))
    size = values.get("max_response_size", _DEFAULT_MAX_RESPONSE_SIZE)
    if type(size) is not int or size <= 0:
        raise ValueError(f"max_response_size is a number of bytes, not {size!r}")
    return Options(**values)


class StoredSignIn(Protocol):
    """The sign-in of a client, as far as its connection renews it."""

    @property
    def path(self) -> str:
        """The path of the authentication service."""
        ...

    @property
    def access_token(self) -> str | None:
        """The token, None without one."""
        ...

    def credentials(self) -> dict[str, str]:
        """Return the data of a sign-in with the token."""
        ...

    def renewed(self, result: object) -> None:
        """Take over the result of the sign-in."""
        ...

    def rejected(self, error: FrameworkError) -> bool:
        """Forget the token if an error says that it is not valid; tell whether it does."""
        ...


class Connection(ABC):
    """The transport and the options of a client, which has it as its ``connection``.

    `rest` and `socketio` return connections of their kind.

    Args:
        base: The base URL of the services.
        make_transport: Returns the transport for a synchronous (True) or asynchronous client.
        options: See `Options`.
        service_class: The class of its services.

    Attributes:
        base: The base URL of the services.
        options: The options of all requests.
        keeps_sign_in: Whether the server knows who has signed in on it, so that calls carry no
            token.
    """

    keeps_sign_in: ClassVar[bool] = False
    repeatable: ClassVar[Collection[str]] = ()
    """The methods of requests that may be sent again."""

    def __init__(
        self,
        base: str,
        make_transport: MakeTransport,
        options: Mapping[str, Any] | None,
        service_class: type[RemoteService],
    ) -> None:
        self.base = base
        self.options = read_options(options)
        self._default_options = SendOptions(self.options.timeout, self.options.max_response_size)
        self._make_transport = make_transport
        self._service_class = service_class
        self._transport: Transport[Any, Any] | None = None
        self._synchronous = False

    def __call__(self, client: object) -> None:
        """Connect a client; ``client.configure(connection)`` calls this.

        Raises:
            TypeError: It is not a client but a server application.
        """
        connect = getattr(client, "connect", None)
        if connect is None:
            raise TypeError(
                f"{self!r} is of alula.client, and {client!r} is not a client; a server application"
                " is configured with rest() of alula.express"
            )
        connect(self)

    def __repr__(self) -> str:
        return f"the connection to {self.base}"

    def service(self, name: str, *, methods: Iterable[str] = ()) -> RemoteService:
        """Return a service of this server, for ``client.use(path, other.service(name))``.

        Args:
            name: Its path.
            methods: Names of its custom methods.
        """
        service = self._service_class(self, name)
        service.declare(methods)
        return service

    def bind(self, *, synchronous: bool) -> None:
        """Create the transport for a synchronous or an asynchronous client.

        Raises:
            TypeError: A client of the other kind uses it already, or what was given for its
                library does not fit this kind.
        """
        if self._transport is None:
            self._transport = self._make_transport(synchronous)
            self._synchronous = synchronous
        elif self._synchronous is not synchronous:
            raise TypeError(
                f"{self!r} serves a client of the other kind already; an asynchronous and a"
                " synchronous client need a connection each"
            )

    def belong_to(  # noqa: B027  # REST learns nothing of its client
        self, emit: Callable[..., object], sign_in: Callable[[], StoredSignIn | None]
    ) -> None:
        """Learn of the client that is configured with it.

        Args:
            emit: Calls listeners of the client.
            sign_in: Returns the sign-in of the client, if it has one.
        """

    @abstractmethod
    def request(self, name: str, method: str, id: Id, data: object, params: Params) -> Sendable:
        """Return the request of a call.

        Raises:
            FrameworkError: The call is not valid.
            TypeError: Data or query hold a value that cannot be sent.
            ValueError: The same.
        """

    @abstractmethod
    def read(self, request: Any, response: Any) -> object:
        """Return the result in a response.

        Raises:
            FrameworkError: The error in the response.
        """

    def _stream(self, request: Sendable, items: ReceivedItems) -> ReceivedItems | ItemStream:
        """Return the result of a method that streams, as callers of this client read it."""
        if self._synchronous:
            return items
        return ItemStream(items, f"{request.method} {request.url.partition('?')[0]}")

    async def call(
        self, name: str, method: str, id: object, data: object, params: Params
    ) -> object:
        """Send the request of a call, again if the option ``retries`` says so; return its result.

        Raises:
            FrameworkError: The error in the response, or why there is none.
            TypeError: Data, query or ``params.connection`` hold a value that cannot be sent. Or the
                result is a stream, and the call is that of a client which was passed on.
            ValueError: The same.
        """
        if self._transport is None:
            self.bind(synchronous=False)
        transport: Any = self._transport
        given = params.get("connection")
        options = self._send_options(given) if given else self._default_options
        request = self.request(name, method, id, data, params)
        began, attempt = time.monotonic(), 0
        while True:
            response: Any = None
            try:
                response = await transport.send(request, options)
                result = self.read(request, response)
                if isinstance(result, ItemStream) and params.get("provider") is not None:
                    await result.aclose()
                    raise TypeError(
                        f"`{method}` of {name!r} streams, and clients of this application cannot"
                        " get the stream of another server as it is; write a method that yields"
                        " its items"
                    )
                return result
            except FrameworkError as error:
                elapsed = time.monotonic() - began
                repeatable = request.method in self.repeatable
                retries = self.options.retries
                delay = retries.delay(error, response, attempt, elapsed) if repeatable else None
                if delay is None:
                    raise
            await transport.sleep(delay)
            attempt += 1

    def _send_options(self, given: object) -> SendOptions:
        if isinstance(given, RealtimeConnection):
            # A server passes a call of its own client on, with the connection that it came by.
            return self._default_options
        if not is_mapping(given):
            raise TypeError(f"params.connection is {given!r}; give a mapping")
        extra = dict(given)
        extra.pop("headers", None)  # the codec merges them
        signal = extra.pop("signal", None)
        if signal is not None and not isinstance(signal, AbortSignal):
            raise TypeError(
                f"params.connection has the signal {signal!r}; give that of an AbortController"
            )
        timeout = extra.pop("timeout", self.options.timeout)
        check_timeout(timeout)
        return SendOptions(timeout, self.options.max_response_size, signal, extra)

    @abstractmethod
    def list_feed(
        self, name: str, params: Callable[[], Awaitable[Params]], sink: ListSink
    ) -> ListFeed:
        """Return what brings the messages of a live list.

        Args:
            name: The path of the service.
            params: Runs the hooks of `find`, and returns its params.
            sink: Takes the messages.
        """

    @abstractmethod
    def run_feed(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine of a live list in the event loop of a synchronous client."""

    def loop_runs(self) -> None:  # noqa: B027  # REST waits for the first call
        """Learn that there is an event loop now; listeners may have been registered before."""

    async def open(self) -> None:  # noqa: B027  # REST has nothing to open
        """Open the connection now, if it stays open between calls."""

    async def close(self) -> None:
        """Close its connections; the next call opens new ones."""
        if self._transport is not None:
            await self._transport.close()


class RemoteService:
    """A service of another server.

    Args:
        connection: The connection to the server.
        name: Its path on the server; segments ``:name`` take their values from ``params.route``.

    Attributes:
        connection: The connection to the server.
        name: Its path, without slashes at the ends.
        custom_methods: Names of its custom methods.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name.strip("/")
        self.custom_methods: tuple[str, ...] = ()

    def declare(self, methods: Iterable[str]) -> None:
        """Add custom methods; the server knows them by the same names.

        Raises:
            ValueError: A name is reserved.
        """
        for method in methods:
            if method in _RESERVED_NAMES:
                raise ValueError(f"the service {self.name!r} lists `{method}`; that name is taken")
            if method not in STANDARD_METHODS and not hasattr(self, method):
                setattr(self, method, partial(self.request, method, None))
                self.custom_methods += (method,)

    def request(self, method: str, id: Id, data: object, params: Params) -> Awaitable[Any]:
        """Send the request of any method; all methods call this one.

        Raises:
            FrameworkError: The error in the response, or why there is none.
        """
        return self.connection.call(self.name, method, id, data, params)

    async def find(self, params: Params) -> Any:
        """Return the records that the query selects, as a list or a `Page`."""
        result = await self.request("find", None, None, params)
        is_page = type(result) is _DICT and result.keys() >= PAGE_NAMES
        return _NO_PAGE | result if is_page else result

    def get(self, id: Id, params: Params) -> Awaitable[Any]:
        """Return one record."""
        return self.request("get", id, None, params)

    def create(self, data: object, params: Params) -> Awaitable[Any]:
        """Create one record or several."""
        return self.request("create", None, data, params)

    def update(self, id: Id, data: object, params: Params) -> Awaitable[Any]:
        """Replace a record."""
        return self.request("update", id, data, params)

    def patch(self, id: Id, data: object, params: Params) -> Awaitable[Any]:
        """Merge data into a record, or into all that the query selects."""
        return self.request("patch", id, data, params)

    def remove(self, id: Id, params: Params) -> Awaitable[Any]:
        """Remove a record, or all that the query selects."""
        return self.request("remove", id, None, params)


def check_timeout(seconds: object) -> None:
    """Check that a timeout is None, or a number of seconds.

    Raises:
        ValueError: It is not.
    """
    if seconds is not None and not (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and 0 < seconds <= _MAX_TIMEOUT
    ):
        raise ValueError(
            f"a timeout is a number of seconds up to {_MAX_TIMEOUT:,}, or None for no limit, not"
            f" {seconds!r}"
        )
