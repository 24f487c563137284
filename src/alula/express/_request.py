"""The request, its headers, and content negotiation. Nothing is parsed before it is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.types import Message, Receive, Scope

from alula._context import Params
from alula.errors import BadRequest
from alula.types import UNSET

__all__ = ["Headers", "Request", "best_match", "media_type", "quality_of", "without_id"]

_NO_PARAMS: dict[str, str] = {}
_TOKEN: Final = re.compile(r"([?&]access_token=)[^&]*")

# Whether there is a body shows in the headers of HTTP/1 alone.
_WITH_FRAMES = frozenset({"2", "3"})
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_BODY = frozenset({b"content-length", b"transfer-encoding"})


class Request:
    """One HTTP request; middleware may add attributes of its own.

    Attributes:
        app: The application that handles it, the sub-application while one does.
        scope: The ASGI scope.
        method: In upper case.
        path: The path as it was sent (percent-encoded); below a mount, what follows its prefix.
        base_url: The prefix that a mount took away.
        original_url: Path and query string as they were sent.
        body: The body as a body parser has parsed it; `UNSET` before that.
        params: Values of the route's placeholders.
        user: The user who is signed in.
        request_id: The id that the middleware `request_id` has set, None without it.
    """

    base_url: str = ""
    body: Any = UNSET
    params: Mapping[str, str] = _NO_PARAMS
    user: Any = None
    request_id: str | None = None
    match: Any = None  # what the path leads to, while the middleware of that service runs
    cancels_calls: bool = False  # whether its service calls end with the connection
    ended_by: Any = None  # the middleware that neither responded nor went on, for the message
    _headers: Headers | None = None
    _framework: Params | None = None
    _query: dict[str, Any] | None = None
    _has_body: bool | None = None
    _hides_id: bool = False
    _root: str = ""  # where the whole application is mounted in another

    def __init__(self, app: Any, scope: Scope, receive: Receive) -> None:
        self.app = app
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        path: str = scope["path"]
        raw: bytes | None = scope.get("raw_path")
        if raw is None:
            path = path.replace("%", "%25")
        elif b"%" in raw:
            path = raw.decode("latin-1")
        self.path = path
        if scope.get("root_path"):
            root = scope["root_path"].rstrip("/")
            # ASGI's root_path is decoded, the path here may be percent-encoded.
            for prefix in (root, quote(root)):
                if path == prefix or path.startswith(prefix + "/"):
                    self._root, self.path = prefix, path[len(prefix) :] or "/"
                    break

    def __repr__(self) -> str:
        # Without the query string, which may hold secrets; a repr ends up in logs.
        return f"<Request {self.method} {self.shown_path}>"

    @property
    def url(self) -> str:
        """Path and query string; below a mount, what follows its prefix."""
        query = self.scope["query_string"]
        return f"{self.path}?{query.decode('latin-1')}" if query else self.path

    @property
    def shown_url(self) -> str:
        """As `url`, without the value of an ``access_token``: for messages, which get logged."""
        return _TOKEN.sub(r"\1...", self.url)

    @property
    def shown_path(self) -> str:
        """The path for logs: without the id, where that of a service is a secret."""
        path = self.base_url + self.path
        return without_id(path) if self.hides_id else path

    @property
    def hides_id(self) -> bool:
        """Whether the path ends with an id that is a secret, by the service that it leads to."""
        if not self._hides_id:
            lookup = getattr(self.app, "lookup", None)
            match = None if lookup is None else lookup(self.path)
            # Stored, because the log of an outer application has no services to look this up.
            self._hides_id = match is not None and match.id is not None and match.value.secret_ids
        return self._hides_id

    @property
    def original_url(self) -> str:
        """Path and query string as they were sent."""
        return self._root + self.base_url + self.url

    @property
    def query(self) -> dict[str, Any]:
        """The query string as a mapping, by the application's query parser.

        Raises:
            BadRequest: It is over the limits.
        """
        if (query := self._query) is None:
            raw = self.scope["query_string"]
            query = self._query = self.app.query_parser(raw.decode("latin-1")) if raw else {}
        return query

    @query.setter
    def query(self, value: dict[str, Any]) -> None:
        self._query = value

    @property
    def headers(self) -> Headers:
        """The headers; look-ups take any case."""
        headers = self._headers
        if headers is None:
            headers = self._headers = Headers(self.scope["headers"])
        return headers

    @property
    def framework(self) -> Params:
        """Params for the service call: properties set here arrive in its ``params``."""
        if self._framework is None:
            self._framework = Params()
            self._framework.provider = "rest"
            self._framework.headers = self.headers
            del self._framework.query  # that of the client is read when a service is called
        return self._framework

    @framework.setter
    def framework(self, _: object) -> None:
        raise AttributeError(
            "req.framework is not replaced as a whole, since other middleware keeps things there;"
            " set one property: req.framework.tenant = ..."
        )

    @property
    def authentication(self) -> Mapping[str, Any] | None:
        """The credentials of the request; the same as ``framework.authentication``."""
        return None if self._framework is None else self._framework.authentication

    @authentication.setter
    def authentication(self, value: Mapping[str, Any] | None) -> None:
        self.framework.authentication = value

    @property
    def ip(self) -> str | None:
        """Address of the client, None if the server does not know it."""
        client = self.scope.get("client")
        return client[0] if client else None

    @property
    def protocol(self) -> str:
        """``http`` or ``https``."""
        return str(self.scope.get("scheme", "http"))

    def get(self, name: str) -> str | None:
        """Return a header's value, None if it was not sent."""
        return self.headers.get(name)

    def accepts(self, *types: str) -> str | None:
        """Return which of these media types the client prefers, None for none.

        Args:
            types: ``"application/json"``, or short: ``"json"``, ``"html"``, ``"text"``.
        """
        return best_match(self.headers.get("accept"), types)

    @property
    def has_body(self) -> bool:
        """Whether the request comes with a body, which may turn out to be empty."""
        has_body = self._has_body
        if has_body is None:
            scope = self.scope
            has_body = (
                scope.get("http_version") in _WITH_FRAMES and self.method not in _WITHOUT_BODY
            )
            for name, value in scope["headers"]:
                if name in _OF_BODY:
                    has_body = value != b"0"
                    break
            self._has_body = has_body
        return has_body

    async def receive_part(self) -> tuple[bytes, bool]:
        """Return the next part of the body, and whether there are more.

        Raises:
            BadRequest: The client disconnected before the end.
        """
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("The connection was closed before the whole body had arrived")
        return message.get("body", b""), message.get("more_body", False)

    async def has_content(self) -> bool:
        """Tell whether a body has any bytes; what was read stays readable.

        Raises:
            BadRequest: The client disconnected before the first of them.
        """
        body, more = await self.receive_part()
        while more and not body:
            body, more = await self.receive_part()
        self.replay(body, more)
        return bool(body)

    def replay(self, body: bytes, more: bool = False) -> None:
        """Put bytes back: they are what `receive` returns next."""
        receive, parts = self.receive, [body]

        async def again() -> Message:
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": more}
            return await receive()

        self.receive = again


def without_id(path: str) -> str:
    """Return the path of a record with dots in the place of its id."""
    return f"{path.rstrip('/').rpartition('/')[0]}/..."


# Of these the first one counts, as in Node's HTTP parser; all others are joined.
_FIRST_ONLY = frozenset(
    {
        "age",
        "authorization",
        "content-length",
        "content-type",
        "etag",
        "expires",
        "from",
        "host",
        "if-modified-since",
        "if-unmodified-since",
        "last-modified",
        "location",
        "max-forwards",
        "proxy-authorization",
        "referer",
        "retry-after",
        "server",
        "user-agent",
        "x-service-method",
    }
)


class Headers(MutableMapping[str, str]):
    """Names in lower case to values; look-ups take any case.

    The values of a header that is sent several times are joined by ``", "``. Of headers that may
    occur only once, the first one counts.

    Middleware may set and delete them: what runs behind it (body parsers, services) reads that. A
    mounted ASGI application gets them as they were sent.

    Args:
        raw: The headers of an ASGI scope, whose names are in lower case.
    """

    __slots__ = ("_by_name", "_raw", "_values")

    def __init__(self, raw: Collection[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._values: dict[str, str] | None = None
        self._by_name: dict[bytes, bytes] | None = None

    def _all(self) -> dict[str, str]:
        values = self._values
        if values is None:
            values = self._values = {}
            for raw_name, raw_value in self._raw:
                name = raw_name.decode("latin-1")
                # Space around a value is not part of it; httptools leaves it at the end.
                value = raw_value.strip(b" \t").decode("latin-1")
                if name not in values:
                    values[name] = value
                elif name not in _FIRST_ONLY:
                    values[name] += ("; " if name == "cookie" else ", ") + value
        return values

    def __getitem__(self, name: str) -> str:
        return self._all()[name.lower()]

    def __setitem__(self, name: str, value: str) -> None:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"a header is text: req.headers[{str(name)!r}] = ..., not {value!r}")
        self._all()[name.lower()] = value

    def __delitem__(self, name: str) -> None:
        del self._all()[name.lower()]

    # Names in any case, and values are text alone.
    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]  # for text alone
        """Return a header's value, or ``default``."""
        values = self._values
        if values is None:
            # Most headers are never looked at, so only what is asked for is decoded (bench rest,
            # instructions of a POST: -5 %).
            by_name = self._by_name
            if by_name is None:
                by_name = self._by_name = dict(self._raw)
                if len(by_name) < len(self._raw):  # some are there twice
                    return self._all().get(name.lower(), default)
            raw = by_name.get(name.lower().encode("latin-1", "replace"))
            return default if raw is None else raw.strip(b" \t").decode("latin-1")
        return values.get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        # Header values may be secrets; a repr ends up in logs.
        return f"<Headers {', '.join(self._all())}>"


_SHORT: Final = {
    "json": "application/json",
    "html": "text/html",
    "text": "text/plain",
    "xml": "application/xml",
    "csv": "text/csv",
}


# Browsers send about ten; a header with thousands would only keep the server busy.
_MAX_RANGES: Final = 100


class _Range(NamedTuple):
    """One part of an Accept header."""

    name: str
    quality: float


def media_type(name: str) -> str:
    """Return a media type in full: ``json`` is ``application/json``.

    Raises:
        ValueError: It is an unknown short name.
    """
    if "/" in name:
        return name
    if name not in _SHORT:
        raise ValueError(
            f"{name!r} is not a media type; write it in full, such as 'image/png', or one of"
            f" {', '.join(_SHORT)}"
        )
    return _SHORT[name]


def best_match(accept: str | None, types: Iterable[str]) -> str | None:
    """Return the type that an Accept header prefers, None if it accepts none of them.

    Quality comes first, then how precisely the header names the type, then its place in the
    header, then the order of ``types``. No header, or an empty one, takes the first.

    Raises:
        ValueError: One of ``types`` is an unknown short name.
    """
    offered = {name: media_type(name).partition(";")[0].strip().lower() for name in types}
    if not accept or not accept.strip():
        return next(iter(offered), None)
    ranges = _ranges(accept)
    best, best_rank = None, (0.0, 0, 0)
    for name, full in offered.items():
        family = full.partition("/")[0] + "/*"
        # Quality, precision and place, by the most precise range that covers the type.
        rank, precision = (0.0, 0, 0), 0
        for at, (covered, quality) in enumerate(ranges):
            match = (
                3 if covered == full else 2 if covered == family else 1 if covered == "*/*" else 0
            )
            if match > precision:
                rank, precision = (quality, match, -at), match
        if rank[0] > 0 and rank > best_rank:
            best, best_rank = name, rank
    return best


def quality_of(accept: str, names: Iterable[str]) -> float:
    """Return the quality (RFC 9110) that a header such as Accept-Encoding gives to something.

    Args:
        accept: The header.
        names: The names of the thing, such as ``gzip`` and ``x-gzip``.

    Returns:
        0 to 1; 0 if it is not accepted.
    """
    wanted = frozenset(names)
    return max((range_.quality for range_ in _ranges(accept) if range_.name in wanted), default=0.0)


def _ranges(header: str) -> list[_Range]:
    ranges = []
    for text in header.split(",", _MAX_RANGES)[:_MAX_RANGES]:
        name, *parameters = (part.strip() for part in text.lower().split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        ranges.append(_Range(name, quality))
    return ranges
