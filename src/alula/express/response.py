"""The response: plain calls say what to answer, and the whole is sent when the middleware is done.

Nothing leaves before the last middleware has returned, so each of them may still look at the
answer and change its headers. The answer is itself an ASGI application: what wraps ASGI
applications (compression, CORS) can wrap it, and another ASGI application can take its place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, Self, TypeAlias
from urllib.parse import quote

from alula.context import HookContext
from alula.errors import NotAcceptable
from alula.express.encoding import dumps
from alula.express.negotiation import media_type
from alula.express.request import Request

__all__ = ["ASGIApp", "Response"]

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_FORBIDDEN = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_WITHOUT_BODY = frozenset({204, 304})


class Response:
    """What is going to be answered.

    Attributes:
        status_code: The status.
        data: In middleware after a service: what the formatter will send.
        hook: In middleware after a service: the hook context of the call.
        headers_sent: Whether an answer was given; further ones are errors.
    """

    status_code: int = 200
    data: Any = None
    hook: HookContext | None = None
    headers_sent: bool = False
    _body: bytes | AsyncIterable[bytes] = b""
    _app: ASGIApp | None = None
    _wrappers: tuple[Callable[[ASGIApp], ASGIApp], ...] = ()

    def __init__(self, req: Request) -> None:
        self.req = req
        self._headers: dict[str, str | list[str]] = {}

    # -- what middleware calls -----------------------------------------------------------------

    def status(self, code: int) -> Self:
        """Set the status; returns the response, so that ``res.status(404).json(...)`` works."""
        self.status_code = code
        return self

    def set(self, name: str, value: str | list[str]) -> Self:
        """Set a header, a list for several of one name.

        Raises:
            ValueError: Name or value hold what a header can not carry, such as a line break.
        """
        for text in (value,) if isinstance(value, str) else value:
            if _FORBIDDEN.search(text) or not _NAME.fullmatch(name):
                raise ValueError(f"the header {name!r} can not be sent with the value {text!r}")
        self._headers[name.lower()] = value
        return self

    def get(self, name: str) -> str | list[str] | None:
        """Return a header that was set, None where it was not."""
        return self._headers.get(name.lower())

    def remove(self, name: str) -> Self:
        """Take a header away."""
        self._headers.pop(name.lower(), None)
        return self

    def type(self, name: str) -> Self:
        """Set the content type: ``text/csv``, or short ``json``, ``html``, ``text``."""
        full = media_type(name)
        text = full.startswith("text/") or full == "application/json"
        return self.set("content-type", f"{full}; charset=utf-8" if text else full)

    def vary(self, name: str) -> Self:
        """Add a name to the header ``Vary``."""
        old = self._headers.get("vary")
        if old is None:
            self._headers["vary"] = name
        elif name.lower() not in str(old).lower():
            self._headers["vary"] = f"{old}, {name}"
        return self

    def json(self, value: Any) -> None:
        """Answer a value as JSON.

        Raises:
            TypeError: It has no JSON form.
        """
        self._answer(dumps(value), _JSON)

    def send(self, body: str | bytes | AsyncIterable[bytes] | Any) -> None:
        """Answer text (as HTML where no type was set), bytes, a stream of bytes, or JSON."""
        if isinstance(body, str):
            self._answer(body.encode(), _HTML)
        elif isinstance(body, bytes | AsyncIterable):
            self._answer(body, "application/octet-stream")
        else:
            self.json(body)

    def redirect(self, url: str, status: int = 302) -> None:
        """Send the client to another address."""
        self.status(status).set("location", quote(url, safe="%;,/?:@&=+$-_.!~*'()#[]"))
        self._answer(f"See {url}".encode(), _TEXT)

    def format(self, handlers: Mapping[str, Callable[..., Any]]) -> Any:
        """Call the handler of the media type that the client likes best; set that content type.

        Args:
            handlers: Media type to a function of no arguments, or of ``(req, res)``. The first
                serves clients that name none. ``default`` serves those that accept nothing else.

        Raises:
            NotAcceptable: There is none that the client accepts, and no ``default``.
        """
        self.vary("Accept")
        offered = [name for name in handlers if name != "default"]
        name = self.req.accepts(*offered)
        if name is None and "default" not in handlers:
            raise NotAcceptable(f"Not Acceptable; this resource comes as {', '.join(offered)}")
        if name is not None:
            self.type(name)
        handler = handlers[name or "default"]
        takes = len(inspect.signature(handler).parameters)
        return handler(*(self.req, self)[:takes])

    def end(self, body: str | bytes = b"") -> None:
        """Answer with what was set so far, and a body if one is given."""
        self._answer(body.encode() if isinstance(body, str) else body, None)

    # -- what Alula's own middleware calls -----------------------------------------------------

    def delegate(self, app: ASGIApp) -> None:
        """Let an ASGI application give the answer; headers that were set are added to its own."""
        self._answer(b"", None)
        self._app = app

    def wrap(self, wrapper: Callable[[ASGIApp], ASGIApp]) -> None:
        """Put an ASGI middleware around the answer, whoever gives it."""
        self._wrappers = (*self._wrappers, wrapper)

    def reset(self) -> None:
        """Forget an answer that was given but not sent, for an error that came after it."""
        self.headers_sent, self._body, self._app = False, b"", None
        self.remove("content-type")

    async def finish(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the answer."""
        if not self._wrappers:
            await self._send(scope, receive, send)
            return
        answer: ASGIApp = self._send
        for wrapper in self._wrappers:
            answer = wrapper(answer)
        await answer(scope, receive, send)

    # -- inside --------------------------------------------------------------------------------

    def _answer(self, body: bytes | AsyncIterable[bytes], content_type: str | None) -> None:
        if self.headers_sent:
            raise RuntimeError(
                f"{self.req.method} {self.req.original_url} was answered already; a middleware"
                " that answers must not call next() as well, and must answer once"
            )
        self.headers_sent = True
        self._body = body
        if content_type is not None and "content-type" not in self._headers:
            self._headers["content-type"] = content_type

    async def _send(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is not None:
            await self._app(scope, receive, self._with_headers(send))
            return
        body, status = self._body, self.status_code
        empty = status in _WITHOUT_BODY
        if empty:
            self.remove("content-type").remove("content-length")
            body = b""
        headers = self._raw_headers()
        if isinstance(body, bytes):
            if not empty and "content-length" not in self._headers:
                headers.append((b"content-length", b"%d" % len(body)))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async for part in body:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _raw_headers(self) -> list[tuple[bytes, bytes]]:
        raw: list[tuple[bytes, bytes]] = []
        for name, value in self._headers.items():
            if isinstance(value, str):
                raw.append((name.encode("latin-1"), value.encode("latin-1")))
            else:
                raw.extend((name.encode("latin-1"), text.encode("latin-1")) for text in value)
        return raw

    def _with_headers(self, send: Any) -> Any:
        async def add(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                added = [pair for pair in self._raw_headers() if pair[0] not in own]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        return add
