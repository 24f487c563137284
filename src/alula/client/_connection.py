"""A connection to a server: its URL, its transport and options, and its services."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from alula._context import Params
from alula.client._abort import AbortSignal
from alula.client._codec import DefaultHeaders, Response, merge_headers, read_response, request_for
from alula.client._fetch import (
    BrowserTransport,
    FetchTransport,
    SocketTransport,
    ThreadTransport,
    in_browser,
)
from alula.client._retries import NO_RETRIES, Retries, read_retries
from alula.client._transport import SendOptions, Transport
from alula.errors import FrameworkError
from alula.types import STANDARD_METHODS, Id

__all__ = ["Connection", "Options", "Rest", "RestService", "rest"]

_DEFAULT_TIMEOUT: Final = 60.0  # seconds
# Sockets and browsers count timeouts as 32-bit milliseconds.
_MAX_TIMEOUT: Final = 2_000_000  # seconds
_RESERVED_NAMES: Final = frozenset({"connection", "custom_methods", "declare", "name", "request"})
_DEFAULT_MAX_RESPONSE_SIZE: Final = 100 * 1024 * 1024  # bytes

MakeTransport = Callable[[bool], Transport]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a connection, for all its requests.

    Attributes:
        headers: Sent with each request.
        timeout: Seconds for a request, None for no limit.
        max_response_size: The largest body of a response, in bytes.
        retries: How many times, and until when, idempotent requests are sent again.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
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
    _check_timeout(values.get("timeout"))
    size = values.get("max_response_size", _DEFAULT_MAX_RESPONSE_SIZE)
    if type(size) is not int or size <= 0:
        raise ValueError(f"max_response_size is a number of bytes, not {size!r}")
    return Options(**values)


class Rest:
    """A server with a REST API; its methods return connections by different HTTP libraries.

    ``client.configure(rest(url))`` is short for ``client.configure(rest(url).fetch())``.

    Attributes:
        base: The base URL of its services.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def __call__(self, client: object) -> None:
        """Connect a client by `fetch`; ``client.configure`` calls this."""
        self.fetch()(client)

    def __repr__(self) -> str:
        return f"rest({self.base!r})"

    def fetch(
        self,
        fetch_function: Callable[..., Any] | None = None,
        service_class: type[RestService] | None = None,
        *,
        options: Mapping[str, Any] | None = None,
    ) -> Connection:
        """Return a connection that sends with a fetch function.

        Args:
            fetch_function: An async function of the shape of ``pyodide.http.pyfetch``. None takes
                that function in a browser, and elsewhere the standard library, which also works
                for a synchronous client.
            service_class: A subclass of `RestService`, for the services.
            options: ``headers``, ``timeout``, ``max_response_size``, ``retries`` (see `Options`).

        Raises:
            TypeError: The connection is used by a synchronous client, which takes no
                ``fetch_function``.
            ValueError: An option is not valid.
        """

        def make(synchronous: bool) -> Transport:
            if synchronous:
                if fetch_function is not None or in_browser():
                    raise TypeError("a fetch function is asynchronous; use create_client()")
                return SocketTransport()
            if fetch_function is not None:
                return FetchTransport(fetch_function)
            return BrowserTransport() if in_browser() else ThreadTransport()

        return Connection(self.base, make, options, service_class)

    def httpx(
        self,
        client: object = None,
        options: Mapping[str, Any] | None = None,
        service_class: type[RestService] | None = None,
    ) -> Connection:
        """Return a connection that sends with httpx2.

        Args:
            client: An ``httpx2.AsyncClient``, for a synchronous client an ``httpx2.Client``; it
                stays open. None creates one.
            options: As for `fetch`.
            service_class: A subclass of `RestService`, for the services.

        Raises:
            ImportError: httpx2 is not installed.
            ValueError: An option is not valid.
        """
        from alula.client._httpx import AsyncHttpxTransport, SyncHttpxTransport  # noqa: PLC0415  # an extra

        def make(synchronous: bool) -> Transport:
            return SyncHttpxTransport(client) if synchronous else AsyncHttpxTransport(client)

        return Connection(self.base, make, options, service_class)

    def aiohttp(
        self,
        session: object = None,
        options: Mapping[str, Any] | None = None,
        service_class: type[RestService] | None = None,
    ) -> Connection:
        """Return a connection that sends with aiohttp.

        Args:
            session: An ``aiohttp.ClientSession``, which stays open. None creates one.
            options: As for `fetch`.
            service_class: A subclass of `RestService`, for the services.

        Raises:
            ImportError: aiohttp is not installed.
            TypeError: The connection is used by a synchronous client.
            ValueError: An option is not valid.
        """
        from alula.client._aiohttp import AiohttpTransport  # noqa: PLC0415  # an extra

        def make(synchronous: bool) -> Transport:
            if synchronous:
                raise TypeError("aiohttp is asynchronous only; use fetch() or httpx() here")
            return AiohttpTransport(session)

        return Connection(self.base, make, options, service_class)


class Connection:
    """The transport and the options of a client, which has it as its ``rest``.

    Attributes:
        base: The base URL of the services.
        options: The options of all requests.
    """

    def __init__(
        self,
        base: str,
        make_transport: MakeTransport,
        options: Mapping[str, Any] | None,
        service_class: type[RestService] | None,
    ) -> None:
        self.base = base
        self.options = read_options(options)
        self._headers = DefaultHeaders(self.options.headers)
        self._default_options = SendOptions(self.options.timeout, self.options.max_response_size)
        self._make_transport = make_transport
        self._service_class = service_class or RestService
        self._transport: Transport | None = None
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

    def service(self, name: str, *, methods: Iterable[str] = ()) -> RestService:
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
            TypeError: It has the other sort of transport already, or its library has no such one.
        """
        if self._transport is None:
            self._transport = self._make_transport(synchronous)
            self._synchronous = synchronous
        elif self._synchronous is not synchronous:
            raise TypeError(
                f"{self!r} serves a client of the other kind already; an asynchronous and a"
                " synchronous client need a connection each"
            )

    async def call(
        self, name: str, method: str, id: object, data: object, params: Params
    ) -> object:
        """Send the request of a call, again if the option ``retries`` says so; return its result.

        Raises:
            FrameworkError: The error in the response, or why there is none.
            TypeError: Data, query or ``params.connection`` hold a value that cannot be sent.
            ValueError: The same.
        """
        if self._transport is None:
            self.bind(synchronous=False)
        transport: Any = self._transport
        given = params.get("connection")
        options = self._send_options(given) if given else self._default_options
        request = request_for(f"{self.base}/{name}", method, id, data, params, self._headers)
        began, attempt = time.monotonic(), 0
        while True:
            response: Response | None = None
            try:
                arrived: Response = await transport.send(request, options)
                response = arrived
                return read_response(request, arrived)
            except FrameworkError as error:
                elapsed = time.monotonic() - began
                retries = self.options.retries
                delay = retries.delay(request.method, error, response, attempt, elapsed)
                if delay is None:
                    raise
            await transport.sleep(delay)
            attempt += 1

    def _send_options(self, given: object) -> SendOptions:
        if not isinstance(given, Mapping):
            raise TypeError(f"params.connection is {given!r}; give a mapping")
        extra = dict(given)
        extra.pop("headers", None)  # the codec merges them
        signal = extra.pop("signal", None)
        if signal is not None and not isinstance(signal, AbortSignal):
            raise TypeError(
                f"params.connection has the signal {signal!r}; give that of an AbortController"
            )
        timeout = extra.pop("timeout", self.options.timeout)
        _check_timeout(timeout)
        return SendOptions(timeout, self.options.max_response_size, signal, extra)

    async def close(self) -> None:
        """Close its connections; the next call opens new ones."""
        if self._transport is not None:
            await self._transport.close()


class RestService:
    """A service of another server; subclass it to change how the server is called.

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
                setattr(self, method, partial(self._custom, method))
                self.custom_methods += (method,)

    def request(self, method: str, id: Id, data: object, params: Params) -> Awaitable[Any]:
        """Send the request of any method; all methods call this one.

        Raises:
            FrameworkError: The error in the response, or why there is none.
        """
        return self.connection.call(self.name, method, id, data, params)

    def find(self, params: Params) -> Awaitable[Any]:
        """Return the records that the query selects, as a list or a page."""
        return self.request("find", None, None, params)

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

    def _custom(self, method: str, data: object, params: Params) -> Awaitable[Any]:
        return self.request(method, None, data, params)


def rest(base_url: str | None = None) -> Rest:
    """Return a server with a REST API.

    Args:
        base_url: The base URL of its services. With services at ``/api/v1/messages``, the base
            ``https://host`` gives the service the name ``api/v1/messages``, and
            ``https://host/api/v1`` gives it the name ``messages``. In a browser a path is one on
            the server of the page, and None is that server.

    Raises:
        ValueError: It is not such a URL.

    Examples:
        ```python
        from alula.client import create_client, rest

        client = create_client().configure(rest("https://host/api").fetch(options={"timeout": 5}))
        messages = client.service("messages")
        ```
    """
    given = base_url or ""
    if in_browser() and not urlsplit(given).scheme:
        import js  # type: ignore[import-not-found]  # noqa: PLC0415  # only browsers have it

        given = f"{js.location.origin}/{given.lstrip('/')}"
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f"rest({base_url!r}): outside a browser a base URL is needed, such as"
            " http://localhost:3030 or https://host/api"
        )
    # Credentials in a URL would get into logs and error texts.
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"rest({parts.scheme}://{parts.hostname}...): a base URL has no query, no fragment and"
            " no user; give credentials as headers"
        )
    return Rest(given.rstrip("/"))


def _check_timeout(seconds: object) -> None:
    if seconds is not None and not (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and 0 < seconds <= _MAX_TIMEOUT
    ):
        raise ValueError(
            f"a timeout is a number of seconds up to {_MAX_TIMEOUT:,}, or None for no limit, not"
            f" {seconds!r}"
        )
