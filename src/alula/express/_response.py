"""The response: plain calls set it, and it is sent when all middleware has returned.

So each middleware may still read the response and change its headers. The response is itself an
ASGI application: what wraps ASGI applications (compression, CORS) can wrap it, and another ASGI
application can take its place.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alula._context import HookContext
from alula._cookies import SameSite, format_cookie
from alula._http import EXCHANGE_EXTENSION, ExchangeExtension
from alula._json_encoding import dumps
from alula.errors import NotAcceptable
from alula.express._headers import header_text, is_header_name, media_type
from alula.express._request import Request
from alula.express._settings import cookie_signer
from alula.express._stream import Stream, send_stream

__all__ = ["Response", "with_one_vary"]

_JSON: Final = "application/json; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"
_STATUSES: Final = range(200, 600)
_WRONG_STATUS: Final = "the status {!r} cannot be sent; it must be 200 to 599"
_WITHOUT_BODY: Final = frozenset({204, 304})
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
# What encodeURI of JavaScript leaves as it is, and what may be encoded already.
_LOCATION_SAFE: Final = "%;,/?:@&=+$-_.!~*'()#[]"

Wrapper: TypeAlias = Callable[[ASGIApp], ASGIApp]
"""Puts an ASGI middleware around a response."""

WholeFunction: TypeAlias = "Callable[[Response], Awaitable[None] | None]"
"""``(res)``, plain or asynchronous: runs before a whole response is sent, and may change it."""

EndFunction: TypeAlias = Callable[[BaseException | None], object]
"""Called when a request has ended, with the error that has ended it; None if it was sent."""

_COMMON: Final[Mapping[tuple[str, object], tuple[bytes, bytes]]] = {
    pair: (pair[0].encode(), pair[1].encode())
    for pair in (
        ("content-type", _JSON),
        ("content-type", _HTML),
        ("content-type", _TEXT),
        ("vary", "Accept"),
        ("vary", "Accept-Encoding, Accept"),
    )
}

_EMPTY: Final[Mapping[str, Any]] = {}

# A response may have several of these; none replaces another.
_REPEATABLE: Final = frozenset({b"set-cookie", b"vary"})

# Headers of a body; they are dropped with it when an error takes its place.
_OF_BODY: Final = (
    "accept-ranges",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "expires",
    "last-modified",
)


def with_one_vary(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers whose ``Vary`` is one, with each name once."""
    pairs = [*headers]
    lines = [value for name, value in pairs if name.lower() == b"vary"]
    names = {
        name.strip().lower(): name.strip() for line in lines for name in line.split(b",") if name
    }
    if not names:
        return pairs
    others = [pair for pair in pairs if pair[0].lower() != b"vary"]
    return [*others, (b"vary", b", ".join(names.values()))]


@lru_cache(maxsize=256)  # nearly all responses have one of a few
def _joined_vary(names: str | None, name: str) -> str:
    if not is_header_name(name):
        raise ValueError(f"{name!r} is not the name of a header")
    if names is None:
        return name
    return names if name.lower() in map(str.strip, names.lower().split(",")) else f"{names}, {name}"


class Response:
    """The response to a request, until it is sent.

    Attributes:
        status_code: The status.
        data: In middleware after a service: what the formatter will send.
        hook: In middleware after a service: the hook context of the call.
        headers_sent: Whether something has responded; responding again is an error.
        sent_status: The status that was sent, None before.
        sent_bytes: How many bytes of a body were sent.
        is_sent: Whether the whole response was sent.
    """

    status_code: int
    data: Any = None
    hook: HookContext | None = None
    is_probe: bool = False  # of a health probe, which the access log leaves out
    headers_sent: bool
    sent_status: int | None = None
    sent_bytes: int = 0
    is_sent: bool = False
    _body: Any = b""  # bytes, or a `Stream`
    _app: ASGIApp | None = None

    def __init__(self, req: Request) -> None:
        self.req = req
        # Python 3.11 reads these four times as fast as defaults of the class.
        self.status_code, self.headers_sent = 200, False
        self._wrappers: list[Wrapper] = []  # the first is outermost
        self._whole_functions: list[WholeFunction] = []  # those that stand in for wrappers
        self._end_functions: list[EndFunction] = []
        self._headers: dict[str, str | list[str]] = {}

    def __repr__(self) -> str:
        return f"<Response {self.status_code}{' set' if self.headers_sent else ''}>"

    # -- what middleware calls -----------------------------------------------------------------

    def status(self, code: int) -> Self:
        """Set the status; returns the response, so that ``res.status(404).json(...)`` works."""
        self.status_code = code
        return self

    def set(self, name: str, value: str | int | list[str]) -> Self:
        """Set a header, a list for several of one name.

        Raises:
            ValueError: Name or value contain what a header must not, such as a line break.
        """
        checked: str | list[str]
        if isinstance(value, list | tuple):
            checked = [header_text(name, item) for item in value]
        else:
            checked = header_text(name, value)
        self._headers[name.lower()] = checked
        return self

    def append(self, name: str, value: str | int | list[str]) -> Self:
        """Add a header to those of its name that were set.

        Raises:
            ValueError: As `set`.
        """
        old = self._headers.get(name.lower(), [])
        new = value if isinstance(value, list | tuple) else [header_text(name, value)]
        return self.set(name, [*([old] if isinstance(old, str) else old), *new])

    def cookie(
        self,
        name: str,
        value: str,
        *,
        max_age: int | timedelta | None = None,
        expires: datetime | None = None,
        path: str = "/",
        domain: str | None = None,
        secure: bool = True,
        http_only: bool = True,
        same_site: SameSite = "lax",
        signed: bool = False,
        partitioned: bool = False,
    ) -> Self:
        """Set a cookie; by default for this host, over HTTPS, and out of reach for scripts.

        Args:
            name: The name; browsers check the rules of the prefixes ``__Host-`` and ``__Secure-``.
            value: Any text; ``json.dumps`` makes one of other values.
            max_age: Seconds, or a `timedelta`, for which browsers keep it; None until they close.
            expires: Until when they keep it, with a time zone; ``max_age`` takes precedence.
            path: The path below which browsers send it.
            domain: A domain whose subdomains get it too; None for this host alone.
            secure: Whether browsers send it over HTTPS only. Chromium and Firefox also send it to
                ``http://localhost``.
            http_only: Whether scripts of a page cannot read it.
            same_site: With which requests of other sites browsers send it.
            signed: Whether the setting ``cookie secret`` signs it. ``req.signed_cookies`` checks it
                with the same setting, so there is no argument for the secret.
            partitioned: Whether each site that embeds this one has a cookie of its own.

        Raises:
            TypeError: An argument has another type.
            ValueError: Browsers would drop the cookie; the message says why.
            LookupError: ``signed``, but the setting ``cookie secret`` is not set.
        """
        if signed:
            value = cookie_signer(self.req.app.settings).sign(name, value)
        line = format_cookie(
            name,
            value,
            max_age=max_age,
            expires=expires,
            path=path,
            domain=domain,
            secure=secure,
            http_only=http_only,
            same_site=same_site,
            partitioned=partitioned,
        )
        return self.append("set-cookie", line)

    def clear_cookie(
        self,
        name: str,
        *,
        path: str = "/",
        domain: str | None = None,
        secure: bool = True,
        same_site: SameSite = "lax",
        partitioned: bool = False,
    ) -> Self:
        """Have the browser remove a cookie.

        Args:
            name: The name.
            path: As it was set; so is the rest.
            domain: As set.
            secure: As set.
            same_site: As set.
            partitioned: As set.

        Raises:
            ValueError: As `cookie`.
        """
        return self.cookie(
            name,
            "",
            max_age=0,
            path=path,
            domain=domain,
            secure=secure,
            same_site=same_site,
            partitioned=partitioned,
        )

    def get(self, name: str) -> str | list[str] | None:
        """Return a header that was set, None where it was not."""
        return self._headers.get(name.lower())

    def remove(self, name: str) -> Self:
        """Take a header away."""
        self._drop(name.lower())
        return self

    def type(self, name: str) -> Self:
        """Set the content type: ``text/csv``, or short ``json``, ``html``, ``text``.

        Raises:
            ValueError: It is an unknown short name.
        """
        full = media_type(name)
        if full.startswith("text/") or full == "application/json":
            full = full if ";" in full else f"{full}; charset=utf-8"
        return self.set("content-type", full)

    def vary(self, name: str) -> Self:
        """Add a name to the header ``Vary``.

        Raises:
            ValueError: It is not the name of a header.
        """
        old = self._headers.get("vary")
        names = ", ".join(old) if isinstance(old, list) else old
        joined = _joined_vary(names, name)
        if joined != names:
            self._headers["vary"] = joined
        return self

    def json(self, value: object) -> None:
        """Respond with a value as JSON.

        Raises:
            TypeError: It has no JSON form.
        """
        self._respond(dumps(value), _JSON)

    def send(self, body: object) -> None:
        """Respond with text (as HTML if no type was set), bytes, a stream of both, or JSON."""
        if isinstance(body, str):
            self._respond(body.encode(), _HTML)
        elif isinstance(body, bytes | bytearray | memoryview):
            self._respond(bytes(body), "application/octet-stream")  # pyright: ignore[reportUnknownArgumentType]  # a view of any items
        elif isinstance(body, AsyncIterable):
            self._respond(body, "application/octet-stream")  # pyright: ignore[reportUnknownArgumentType]  # `isinstance` says nothing of its items
        else:
            self.json(body)

    def redirect(self, url: str, status: int = 302) -> None:
        """Respond with a redirect to another URL."""
        location = quote(url, safe=_LOCATION_SAFE)
        self.status(status).set("location", location).set("content-type", _TEXT)
        self._respond(f"See {location}".encode(), None)

    def format(self, handlers: Mapping[str, Callable[..., Any]]) -> Any:
        """Call the handler of the media type that the client prefers; set that content type.

        Args:
            handlers: Media type to a function of no arguments, or of ``(req, res)``. The first
                serves clients without a preference. ``default`` serves those that accept none.

        Returns:
            What the handler returns, so that an asynchronous one can be awaited.

        Raises:
            NotAcceptable: The client accepts none of them, and there is no ``default``.
            ValueError: One of the types is an unknown short name.
        """
        self.vary("Accept")
        offered = [name for name in handlers if name != "default"]
        name = self.req.accepts(*offered)
        if name is None and "default" not in handlers:
            raise NotAcceptable(f"Not Acceptable; this resource comes as {', '.join(offered)}")
        if name is not None:
            self.type(name)
        handler = handlers[name or "default"]
        parameters = inspect.signature(handler).parameters.values()
        takes = [p for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
        return handler(*(self.req, self)[: len(takes)])

    def end(self, body: str | bytes = b"") -> None:
        """Respond with what was set so far, and a body if one is given."""
        self._respond(body.encode() if isinstance(body, str) else body, None)

    # -- what Alula's own middleware calls -----------------------------------------------------

    def send_result(self, value: object) -> None:
        """Respond with the result of a service as JSON; with no body if the status is 204.

        Raises:
            TypeError: It has no JSON form.
        """
        body = b"" if self.status_code == 204 else dumps(value)
        headers = self._headers
        if "vary" in headers:
            self.vary("Accept")
        else:
            headers["vary"] = "Accept"
        headers["content-type"] = _JSON
        self._respond(body, None)

    def delegate(self, app: ASGIApp) -> None:
        """Respond with an ASGI application; headers that were set are added to its own."""
        self._respond(b"", None)

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    names = {name.lower() for name, _ in message["headers"]} - _REPEATABLE
                    added = [pair for pair in self._raw_headers() if pair[0] not in names]
                    message = {**message, "headers": with_one_vary([*message["headers"], *added])}
                await send(message)

            await app(scope, receive, send_with_headers)

        self._app = respond

    def wrap(self, wrapper: Wrapper, whole: WholeFunction | None = None) -> None:
        """Put an ASGI middleware around the response; the first one is outermost.

        Args:
            wrapper: The middleware.
            whole: Does the same for a response whose whole body is known. It runs instead of the
                wrapper, unless one of the others has no such function: a response that passes
                wrappers costs three coroutines for each of them.
        """
        self._wrappers.append(wrapper)
        if whole is not None:
            self._whole_functions.append(whole)

    def on_end(self, function: EndFunction) -> None:
        """Call a function when the request has ended: it was sent, has failed, or was cancelled.

        The last function is called first. `sent_status`, `sent_bytes` and `is_sent` are set then.
        """
        self._end_functions.append(function)

    def ended(self, error: BaseException | None = None) -> None:
        """Call the functions of `on_end`."""
        for function in reversed(self._end_functions):
            function(error)

    @property
    def whole_body(self) -> bytes:
        """The body of a whole response; `WholeFunction`s may replace it."""
        body: bytes = self._body
        return body

    @whole_body.setter
    def whole_body(self, body: bytes) -> None:
        self._body = body

    def reset(self) -> Self:
        """Drop the response and the headers of its body, for an error that came after it.

        No cache keeps the error for as long as it may keep the response.
        """
        self.headers_sent, self._body, self._app = False, b"", None
        self._drop(*_OF_BODY)
        caching = str(self._headers.get("cache-control")).lower()
        if "public" in caching or "age=" in caching:
            self.set("cache-control", "no-store")
        return self

    async def finish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response: in one call if its whole body is known, and the server can take it."""
        whole_functions = self._whole_functions
        if (
            self._app is not None
            or not isinstance(self._body, bytes)
            or len(whole_functions) < len(self._wrappers)
        ):
            await self._send_in_parts(scope, receive, send)
            return
        for function in whole_functions:
            if (waiting := function(self)) is not None:
                await waiting
        status, headers, body = self._whole(scope)
        server: ExchangeExtension | None = scope.get("extensions", _EMPTY).get(EXCHANGE_EXTENSION)
        if (
            server is None
            or server.send != send  # what wraps `send` has to see the messages
            or "content-length" in self._headers
            or not server.respond(status, headers, body)
        ):
            for message in self._messages(status, headers, body):
                await send(message)
        self.sent_status, self.is_sent = status, True
        if scope["method"] != "HEAD":
            self.sent_bytes = len(body)

    # -- inside --------------------------------------------------------------------------------

    def _respond(self, body: bytes | Stream, content_type: str | None) -> None:
        if self.headers_sent:
            raise RuntimeError(
                f"{self.req!r} has a response already; middleware that responds must not call"
                " next() as well, and must respond once"
            )
        if self.status_code not in _STATUSES:
            raise ValueError(_WRONG_STATUS.format(self.status_code))
        self.headers_sent = True
        self._body = body
        if content_type is not None:
            self._headers.setdefault("content-type", content_type)

    def _drop(self, *names: str) -> None:
        for name in names:
            self._headers.pop(name, None)

    async def _send_in_parts(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a response that passes wrappers, or whose body is a stream or an application."""
        has_body = scope["method"] != "HEAD"

        async def count(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start":
                self.sent_status = message["status"]
            else:
                self.sent_bytes += len(message.get("body", b"")) * has_body
                self.is_sent = not message.get("more_body", False)

        response: ASGIApp = self._send
        for wrapper in reversed(self._wrappers):
            response = wrapper(response)
        await response(scope, receive, count)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response as an ASGI application."""
        if self._app is not None:
            await self._app(scope, receive, send)
        elif isinstance(self._body, bytes) or self.status_code in _WITHOUT_BODY:
            for message in self._messages(*self._whole(scope)):
                await send(message)
        elif self.status_code not in _STATUSES:
            raise ValueError(_WRONG_STATUS.format(self.status_code))
        else:
            status, headers = self.status_code, self._raw_headers()
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
            else:
                await send_stream(self._body, (status, headers), scope, receive, send)

    def _whole(self, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Return status, headers and body of a response whose body is known."""
        status, body = self.status_code, self._body
        if status not in _STATUSES:  # middleware may have changed it since the check of `_respond`
            raise ValueError(_WRONG_STATUS.format(status))
        if status in _WITHOUT_BODY:
            self._drop("content-type", "content-length")
            body = b""
        # A wrong length set by middleware would break the connection.
        elif body or scope["method"] != "HEAD":
            self._headers.pop("content-length", None)
        return status, self._raw_headers(), body

    def _messages(
        self, status: int, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[Message, Message]:
        """Return the messages of ASGI for what `_whole` returns."""
        if "content-length" not in self._headers and status not in _WITHOUT_BODY:
            headers.append((b"content-length", b"%d" % len(body)))
        return (
            {"type": "http.response.start", "status": status, "headers": headers},
            {"type": "http.response.body", "body": body},
        )

    def _raw_headers(self) -> list[tuple[bytes, bytes]]:
        raw: list[tuple[bytes, bytes]] = []
        self._headers.pop("transfer-encoding", None)  # the server alone frames bodies
        for pair in self._headers.items():
            name, value = pair
            if type(value) is str:
                raw.append(_COMMON.get(pair) or (name.encode(), value.encode("latin-1")))
            else:
                raw += [(name.encode(), text.encode("latin-1")) for text in value]
        return raw
