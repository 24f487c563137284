"""A connection to a server: where it is, how requests are sent, which options every call has."""

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

_TIMEOUT: Final = 60.0
_LONGEST: Final = 2_000_000  # seconds; sockets and browsers count 2**31 milliseconds
_OWN: Final = frozenset({"connection", "custom_methods", "declare", "name", "request"})
_LIMIT: Final = 100 * 1024 * 1024

MakeTransport = Callable[[bool], Transport]


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for every call of a connection.

    Attributes:
        headers: Sent with each request.
        timeout: Seconds for a request, None for no limit.
        max_response_size: Bytes that an answer may have.
        retries: How often, and until when, calls that may be repeated are tried again.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float | None = _TIMEOUT
    max_response_size: int = _LIMIT
    retries: Retries = NO_RETRIES


def read_options(given: Mapping[str, Any] | None) -> Options:
    """Return options as they were given.

    Raises:
        ValueError: One is not known, or is not in order.
        TypeError: A header is no string.
    """
    values = dict(given or {})
    unknown = values.keys() - Options.__dataclass_fields__.keys()
    if unknown:
        raise ValueError(
            f"options have {', '.join(sorted(unknown))}; there are"
            f" {', '.join(Options.__dataclass_fields__)}"
        )
    values["headers"] = merge_headers(values.get("headers"))
    values["retries"] = read_retries(values.get("retries"))
    _check_timeout(values.get("timeout"))
    size = values.get("max_response_size", _LIMIT)
    if type(size) is not int or size <= 0:
        raise ValueError(f"max_response_size is a number of bytes, not {size!r}")
    return Options(**values)


class Rest:
    """A server that is spoken to over HTTP; one of its methods says by which library.

    ``client.configure(rest(url))`` takes the built-in one, as ``rest(url).fetch()`` does.

    Attributes:
        base: The address below which its services are.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def __call__(self, client: Any) -> None:
        """Become the transport of a client, by `fetch`; ``client.configure`` calls this."""
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
                that one in a browser, and elsewhere the standard library, which also serves the
                synchronous client.
            service_class: Derives from `RestService`.
            options: ``headers``, ``timeout``, ``max_response_size``, ``retries`` (see `Options`).

        Raises:
            TypeError: The connection is used by a synchronous client, which takes no
                ``fetch_function``.
            ValueError: An option is not in order.
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
        client: Any = None,
        options: Mapping[str, Any] | None = None,
        service_class: type[RestService] | None = None,
    ) -> Connection:
        """Return a connection that sends with httpx2.

        Args:
            client: An ``httpx2.AsyncClient``, for a synchronous client an ``httpx2.Client``; it
                stays open. None makes one.
            options: As for `fetch`.
            service_class: Derives from `RestService`.

        Raises:
            ImportError: httpx2 is not installed.
            ValueError: An option is not in order.
        """
        from alula.client._httpx import AsyncHttpxTransport, SyncHttpxTransport  # noqa: PLC0415  # an extra

        def make(synchronous: bool) -> Transport:
            return SyncHttpxTransport(client) if synchronous else AsyncHttpxTransport(client)

        return Connection(self.base, make, options, service_class)

    def aiohttp(
        self,
        session: Any = None,
        options: Mapping[str, Any] | None = None,
        service_class: type[RestService] | None = None,
    ) -> Connection:
        """Return a connection that sends with aiohttp.

        Args:
            session: An ``aiohttp.ClientSession``, which stays open. None makes one.
            options: As for `fetch`.
            service_class: Derives from `RestService`.

        Raises:
            ImportError: aiohttp is not installed.
            TypeError: The connection is used by a synchronous client.
            ValueError: An option is not in order.
        """
        from alula.client._aiohttp import AiohttpTransport  # noqa: PLC0415  # an extra

        def make(synchronous: bool) -> Transport:
            if synchronous:
                raise TypeError("aiohttp is asynchronous alone; use fetch() or httpx() here")
            return AiohttpTransport(session)

        return Connection(self.base, make, options, service_class)


class Connection:
    """What a client is configured with, and has as its ``rest``.

    Attributes:
        base: The address below which the services are.
        options: What holds for every call.
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

    def __call__(self, client: Any) -> None:
        """Become the transport of a client; ``client.configure(connection)`` calls this.

        Raises:
            TypeError: It is not a client, but an application that serves.
        """
        if not hasattr(client, "connect"):
            raise TypeError(
                f"{self!r} is of alula.client, and {client!r} is not a client; an application that"
                " serves is configured with rest() of alula.express"
            )
        client.connect(self)

    def __repr__(self) -> str:
        return f"the connection to {self.base}"

    def service(self, name: str, *, methods: Iterable[str] = ()) -> RestService:
        """Return a service there, to be registered: ``client.use(path, other.service(name))``.

        Args:
            name: Its path.
            methods: Names of its custom methods.
        """
        service = self._service_class(self, name)
        service.declare(methods)
        return service

    def bind(self, *, synchronous: bool) -> None:
        """Serve a client of one kind.

        Raises:
            TypeError: It serves one of the other kind, or its library can not do that.
        """
        if self._transport is None:
            self._transport = self._make_transport(synchronous)
            self._synchronous = synchronous
        elif self._synchronous is not synchronous:
            raise TypeError(
                f"{self!r} serves a client of the other kind already; asynchronous and synchronous"
                " clients need one each"
            )

    async def call(self, name: str, method: str, id: Any, data: Any, params: Params) -> Any:
        """Carry out a call, again where the options say so, and return its result.

        Raises:
            FrameworkError: What the server answers, or why there is no answer.
            TypeError: Data, query or ``params.connection`` hold what can not be sent.
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
                answer: Response = await transport.send(request, options)
                response = answer
                return read_response(request, answer)
            except FrameworkError as error:
                elapsed = time.monotonic() - began
                retries = self.options.retries
                delay = retries.delay(request.method, error, response, attempt, elapsed)
                if delay is None:
                    raise
            await transport.sleep(delay)
            attempt += 1

    def _send_options(self, given: Any) -> SendOptions:
        options = self.options
        if not isinstance(given, Mapping):
            raise TypeError(f"params.connection is {given!r}; give a mapping")
        more = dict(given)
        more.pop("headers", None)
        signal = more.pop("signal", None)
        if signal is not None and not isinstance(signal, AbortSignal):
            raise TypeError(
                f"params.connection has the signal {signal!r}; give that of an AbortController"
            )
        timeout = more.pop("timeout", options.timeout)
        _check_timeout(timeout)
        return SendOptions(timeout, options.max_response_size, signal, more)

    async def close(self) -> None:
        """Close what was opened; the next call opens it again."""
        if self._transport is not None:
            await self._transport.close()


class RestService:
    """A service on the other side of a connection; derive from it to change how it is called.

    Args:
        connection: What sends.
        name: Its path there; segments ``:name`` take their values from ``params.route``.

    Attributes:
        connection: As given.
        name: Without slashes at its ends.
        custom_methods: Names of the custom methods that it was given.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name.strip("/")
        self.custom_methods: tuple[str, ...] = ()

    def declare(self, methods: Iterable[str]) -> None:
        """Give it custom methods, which are called by their names on the wire.

        Raises:
            ValueError: A name is taken.
        """
        for method in methods:
            if method in _OWN:
                raise ValueError(f"the service {self.name!r} lists `{method}`; that name is taken")
            if method not in STANDARD_METHODS and not hasattr(self, method):
                setattr(self, method, partial(self._custom, method))
                self.custom_methods += (method,)

    def request(self, method: str, id: Id, data: Any, params: Params) -> Awaitable[Any]:
        """Carry out any call; every method passes here.

        Raises:
            FrameworkError: What the server answers, or why there is no answer.
        """
        return self.connection.call(self.name, method, id, data, params)

    def find(self, params: Params) -> Awaitable[Any]:
        """Return what the query selects."""
        return self.request("find", None, None, params)

    def get(self, id: Id, params: Params) -> Awaitable[Any]:
        """Return one record."""
        return self.request("get", id, None, params)

    def create(self, data: Any, params: Params) -> Awaitable[Any]:
        """Create one record or several."""
        return self.request("create", None, data, params)

    def update(self, id: Id, data: Any, params: Params) -> Awaitable[Any]:
        """Replace a record."""
        return self.request("update", id, data, params)

    def patch(self, id: Id, data: Any, params: Params) -> Awaitable[Any]:
        """Merge data into a record, or into all that the query selects."""
        return self.request("patch", id, data, params)

    def remove(self, id: Id, params: Params) -> Awaitable[Any]:
        """Remove a record, or all that the query selects."""
        return self.request("remove", id, None, params)

    def _custom(self, method: str, data: Any, params: Params) -> Awaitable[Any]:
        return self.request(method, None, data, params)


def rest(base_url: str | None = None) -> Rest:
    """Return a server, to be spoken to over HTTP.

    Args:
        base_url: The address below which its services are. With services at ``/api/v1/messages``,
            the base ``https://host`` makes that the service ``api/v1/messages``, and
            ``https://host/api/v1`` makes it ``messages``. In a browser None is the server that the
            page came from, and a path is one there.

    Raises:
        ValueError: It is no such address.
    """
    given = base_url or ""
    if in_browser() and not urlsplit(given).scheme:
        given = f"{_origin_of_page()}/{given.lstrip('/')}"
    parts = urlsplit(given)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f"rest({base_url!r}): outside a browser a base URL is needed, such as"
            " http://localhost:3030 or https://host/api"
        )
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(
            f"rest({parts.scheme}://{parts.hostname}...): a base URL has no query, no fragment and"
            " no user; give credentials as headers"
        )
    return Rest(given.rstrip("/"))


def _check_timeout(seconds: Any) -> None:
    if seconds is not None and not (type(seconds) in {int, float} and 0 < seconds <= _LONGEST):
        raise ValueError(
            f"a timeout is a number of seconds up to {_LONGEST:,}, or None for no limit, not"
            f" {seconds!r}"
        )


def _origin_of_page() -> str:
    import js  # type: ignore[import-not-found]  # noqa: PLC0415  # in browsers alone

    return str(js.location.origin)
