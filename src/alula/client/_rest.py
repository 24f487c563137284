"""REST: a server with services at paths, and the HTTP libraries that call it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from alula._context import Params
from alula._user_code import explain_twin
from alula.client._codec import (
    DefaultHeaders,
    Request,
    Response,
    merge_headers,
    read_response,
    request_for,
)
from alula.client._connection import Connection, MakeTransport, RemoteService
from alula.client._fetch import (
    BrowserTransport,
    FetchTransport,
    SocketTransport,
    ThreadTransport,
    in_browser,
)
from alula.client._live_list import ListSink
from alula.client._live_stream import StreamFeed
from alula.client._portal import Portal, transport_for
from alula.client._response_stream import Received, ResponseStream
from alula.client._streamed_items import EventItems
from alula.client._transport import REPEATABLE, Transport
from alula.types import Id

__all__ = ["Rest", "RestConnection", "RestService", "rest"]


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
                that function in a browser, and elsewhere the standard library.
            service_class: A subclass of `RestService`, for the services.
            options: ``headers``, ``timeout``, ``max_response_size``, ``retries`` (see `Options`).

        Raises:
            TypeError: A synchronous client uses the connection in a browser.
            ValueError: An option is not valid.
        """

        def make(synchronous: bool) -> Transport[Request, Received]:
            if synchronous and in_browser():
                raise TypeError(
                    "a synchronous client would block the browser; use create_client() here"
                )
            if fetch_function is not None:
                make_one = partial(FetchTransport, fetch_function)
                return transport_for(make_one, synchronous=synchronous)
            if synchronous:
                return SocketTransport()
            return BrowserTransport() if in_browser() else ThreadTransport()

        return RestConnection(self.base, make, options, service_class)

    def httpx(
        self,
        client: object = None,
        options: Mapping[str, Any] | None = None,
        service_class: type[RestService] | None = None,
    ) -> Connection:
        """Return a connection that sends with httpx2.

        Args:
            client: An ``httpx2.AsyncClient``, or for a synchronous client an ``httpx2.Client``; it
                stays open. A synchronous client also takes an ``AsyncClient``, and closes it: no
                other event loop could. None creates one.
            options: As for `fetch`.
            service_class: A subclass of `RestService`, for the services.

        Raises:
            ImportError: httpx2 is not installed.
            ValueError: An option is not valid.
        """
        from alula.client._httpx import make_httpx_transport  # noqa: PLC0415  # an extra

        def make(synchronous: bool) -> Transport[Request, Received]:
            return make_httpx_transport(client, synchronous=synchronous)

        return RestConnection(self.base, make, options, service_class)

    def aiohttp(
        self,
        session: object = None,
        options: Mapping[str, Any] | None = None,
        service_class: type[RestService] | None = None,
    ) -> Connection:
        """Return a connection that sends with aiohttp.

        Args:
            session: An ``aiohttp.ClientSession``, which stays open; not for a synchronous client,
                since it belongs to another event loop. None creates one.
            options: As for `fetch`.
            service_class: A subclass of `RestService`, for the services.

        Raises:
            ImportError: aiohttp is not installed.
            TypeError: A synchronous client uses the connection, and there is a session.
            ValueError: An option is not valid.
        """
        from alula.client._aiohttp import AiohttpTransport  # noqa: PLC0415  # an extra

        def make(synchronous: bool) -> Transport[Request, Received]:
            if synchronous and session is not None:
                raise TypeError(
                    "a synchronous client has an event loop of its own, and an"
                    " aiohttp.ClientSession belongs to another one; give none: aiohttp()"
                )
            return transport_for(partial(AiohttpTransport, session), synchronous=synchronous)

        return RestConnection(self.base, make, options, service_class)


class RestService(RemoteService):
    """A service of a server with a REST API; subclass it to change how the server is called.

    All methods call `request`.
    """


class RestConnection(Connection):
    """A connection that sends each call as an HTTP request."""

    repeatable = REPEATABLE

    def __init__(
        self,
        base: str,
        make_transport: MakeTransport,
        options: Mapping[str, Any] | None,
        service_class: type[RestService] | None,
    ) -> None:
        super().__init__(base, make_transport, options, service_class or RestService)
        self._headers = DefaultHeaders(self.options.headers)
        self._streams: Portal[ThreadTransport] | None = None
        self._feeds: WeakSet[StreamFeed] = WeakSet()

    def request(self, name: str, method: str, id: Id, data: object, params: Params) -> Request:
        """Return the HTTP request of a call (see `request_for`)."""
        return request_for(f"{self.base}/{name}", method, id, data, params, self._headers)

    def read(self, request: Request, response: Received) -> object:
        """Return the result in a response (see `read_response`), or a stream of items."""
        if not isinstance(response, ResponseStream):
            return read_response(request, response)
        return self._stream(request, EventItems(request, response))

    # -- live lists ----------------------------------------------------------------------------

    def list_feed(
        self, name: str, params: Callable[[], Awaitable[Params]], sink: ListSink
    ) -> StreamFeed:
        """Return what brings the messages of a list (see `Connection.list_feed`)."""
        feed = StreamFeed(self, name, params, sink)
        self._feeds.add(feed)
        return feed

    def run_feed(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine of a list in the event loop of a synchronous client.

        Raises:
            TypeError: The client sends with an ``httpx2.Client`` of the user.
        """
        self._portal().run(lambda _: call())

    @property
    def max_event(self) -> int:
        """The largest event, in bytes."""
        return self.options.max_response_size

    def stream_request(self, name: str, params: Params, have: str | None) -> Request:
        """Return the request of the stream of a list."""
        given = Params(params, query={**params.query, "$live": True})
        request = self.request(name, "find", None, None, given)
        last = {} if have is None else {"Last-Event-ID": have}
        headers = merge_headers(request.headers, {"Accept": "text/event-stream", **last})
        return request._replace(headers=headers)

    async def stream(self, request: Request, take: Callable[[bytes], object]) -> Response:
        """Send a request, and pass the parts of a successful response on as they arrive."""
        transport: Any = self._portal().transport if self._synchronous else self._transport
        options = replace(self._default_options, timeout=None)  # silence ends it
        response: Received = await transport.send(request, options)
        if not isinstance(response, ResponseStream):
            return response
        async with aclosing(response):
            while part := await response.read():
                take(part)
        return Response(response.status, response.headers, b"")

    def _portal(self) -> Portal[Any]:
        """Return what a synchronous client reads lists with: it has an event loop."""
        transport: Any = self._transport
        if isinstance(self._transport, Portal):
            return transport  # type: ignore[no-any-return]  # its type argument is unknown
        if not isinstance(self._transport, SocketTransport):
            raise TypeError(
                "an httpx2.Client of your own reads no live lists; use httpx() without one, an"
                " httpx2.AsyncClient, or fetch()"
            )
        if self._streams is None:
            self._streams = Portal(ThreadTransport)
        return self._streams

    async def close(self) -> None:
        """Close its connections, and end the lists; the next call opens new ones."""
        for feed in list(self._feeds):
            if feed.is_open and self._synchronous:
                self.run_feed(feed.end)
            elif feed.is_open:
                await feed.end()
        await super().close()
        if self._streams is not None:
            await self._streams.close()


def rest(base_url: str | None = None) -> Rest:
    """Return a server with a REST API.

    Args:
        base_url: The base URL of its services. With services at ``/api/v1/messages``, the base
            ``https://host`` gives the service the name ``api/v1/messages``, and
            ``https://host/api/v1`` gives it the name ``messages``. In a browser a path is one on
            the server of the page, and None is that server.

    Raises:
        ValueError: It is not such a URL.
        TypeError: It is not text.

    Examples:
        ```python
        from alula.client import create_client, rest

        client = create_client().configure(rest("https://host/api").fetch(options={"timeout": 5}))
        messages = client.service("messages")
        ```
    """
    if not isinstance(base_url, str | None):
        raise TypeError(f"rest({base_url!r}): give a URL; {explain_twin('alula.client.rest')}")
    given = base_url or ""
    if in_browser() and not urlsplit(given).scheme:
        import js  # type: ignore[import-not-found]  # noqa: PLC0415  # only browsers have it

        given = f"{js.location.origin}/{given.lstrip('/')}"  # pyright: ignore[reportUnknownMemberType]  # only browsers have its types
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
