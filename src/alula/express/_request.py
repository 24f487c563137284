"""The request and its headers. Nothing of them is parsed before it is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import quote

from starlette.types import Message, Receive, Scope

from alula._context import Params
from alula._cookies import parse_cookies
from alula._routes import percent_decoded
from alula.errors import BadRequest
from alula.express._headers import best_match
from alula.express._settings import cookie_signer, query_parser
from alula.types import UNSET

__all__ = [
    "SENT_PATH",
    "Headers",
    "Request",
    "is_normal",
    "normalized",
    "split_path",
    "without_id",
]

SENT_PATH: Final = "alula.sent_path"
"""In a scope: the path as it was sent, if it has an empty segment between two others."""

_SLASHES: Final = re.compile("/{2,}")
# Escapes of characters that mean the same without one: letters, digits and -._~ (RFC 3986, 2.3).
_NEEDLESS_ESCAPES: Final = re.compile(
    "(?:%(?:2[de]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|7e))+", re.IGNORECASE
)
_PERCENT_ALONE: Final = re.compile("%(?![0-9a-fA-F]{2})")

_NO_PARAMS: dict[str, str] = {}
# Parameters of OAuth, OpenID Connect, links that sign in, and links to files. Keys and passwords do
# not belong into URLs, but some clients send them there.
_SECRET_PARAMETER: Final = re.compile(
    r"([?&](?:access_?token|api_?key|code|feathers_token|id_token|password|refresh_?token|signature"
    r"|state|ticket|token)=)[^&]*",
    re.IGNORECASE,
)

# Whether there is a body shows in the headers of HTTP/1 alone.
_WITH_FRAMES = frozenset({"2", "3"})
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
_PATH_SAFE: Final = "/:@!$&'()*+,;="  # what RFC 3986 allows in a path besides letters and digits
_PERCENT: Final = ord("%")  # Python finds a number in bytes seven times as fast as other bytes


# If a client repeats one of these, the first counts, as in Node. All others are joined.
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
_ENCODED: Final = {
    name: name.encode()
    for name in (
        "accept",
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "x-service-method",
    )
}
"""What is looked up for most requests."""


class Request:
    """One HTTP request; middleware may add attributes of its own.

    Attributes:
        app: The application that handles it, the sub-application while one does.
        scope: The ASGI scope.
        sent_headers: The headers as they were sent, names in lower case; of one that is there
            twice, the last.
        method: In upper case.
        path: The path as it was sent (percent-encoded); below a mount, what follows its prefix.
        base_url: The prefix that a mount took away.
        original_url: Path and query string as they were sent.
        has_body: Whether it comes with a body, which may turn out to be empty.
        body: The body as a body parser has parsed it; `UNSET` before that.
        params: Values of the route's placeholders.
        user: The user who is signed in.
        request_id: The id that the middleware `request_id` has set, None without it.
    """

    ip: str | None
    """The address of the client, None if the server does not know it."""

    base_url: str = ""
    body: Any
    params: Mapping[str, str] = _NO_PARAMS
    user: Any = None
    request_id: str | None = None
    match: Any = None  # what the path leads to, while the middleware of that service runs
    ended_by: Any = None  # the middleware that neither responded nor went on, for the message
    _cookies: dict[str, str] | None = None
    _hides_id: bool = False

    def __init__(self, app: Any, scope: Scope, receive: Receive) -> None:
        self.app = app
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        client = scope.get("client")
        self.ip = client[0] if client else None
        headers = self._headers = Headers(scope["headers"])
        # Python 3.11 reads these four times as fast as defaults of the class.
        self.body = UNSET
        self.cancels_calls = False  # whether service calls of `app` end with the connection
        self._framework: Params | None = None
        self._query: dict[str, Any] | None = None if scope["query_string"] else {}
        # The credentials, until there is a `_framework` to have them.
        self._authentication: Mapping[str, Any] | None = None
        self._root, self.path = split_path(scope)
        sent = self.sent_headers = headers.sent
        if b"content-length" in sent or b"transfer-encoding" in sent:
            self.has_body = sent.get(b"content-length") != b"0"
        else:
            may_have = self.method not in _WITHOUT_BODY
            self.has_body = may_have and scope.get("http_version") in _WITH_FRAMES

    def __repr__(self) -> str:
        # The query string may hold secrets, and a repr ends up in logs.
        return f"<Request {self.method} {self.shown_path}>"

    @property
    def url(self) -> str:
        """Path and query string; below a mount, what follows its prefix."""
        query = self.scope["query_string"]
        return f"{self.path}?{query.decode('latin-1')}" if query else self.path

    @property
    def shown_url(self) -> str:
        """As `url`, without the values of tokens, keys and codes: for messages, which get logged.

        The names of such parameters, in any case, are ``access_token``, ``api_key``, ``code``,
        ``feathers_token``, ``id_token``, ``password``, ``refresh_token``, ``signature``, ``state``,
        ``ticket`` and ``token``; also ``accessToken``, ``apiKey`` and ``refreshToken``.
        """
        return _SECRET_PARAMETER.sub(r"\1...", self.url)

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
            raw = self.scope["query_string"].decode("latin-1")
            query = self._query = query_parser(self.app.settings)(raw)
        return query

    @query.setter
    def query(self, value: dict[str, Any]) -> None:
        self._query = value

    @property
    def headers(self) -> Headers:
        """The headers; look-ups take any case."""
        return self._headers

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies by name, as the client sent them: anybody can make up a value."""
        cookies = self._cookies
        if cookies is None:
            cookies = self._cookies = parse_cookies(self.headers.get("cookie"))
        return cookies

    @property
    def signed_cookies(self) -> dict[str, str]:
        """The cookies with a valid signature of ``res.cookie(..., signed=True)``, without it.

        Raises:
            LookupError: The setting ``cookie secret`` is not set.
        """
        signer = cookie_signer(self.app.settings)
        values = {name: signer.verify(name, signed) for name, signed in self.cookies.items()}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def framework(self) -> Params:
        """Params for the service call: properties set here arrive in its ``params``."""
        if self._framework is None:
            self._framework = Params()
            self._framework.provider = "rest"
            self._framework.headers = self.headers
            del self._framework.query  # that of the client is read when a service is called
            if self._authentication is not None:
                self._framework.authentication = self._authentication
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
        if self._framework is None:
            return self._authentication
        return self._framework.authentication

    @authentication.setter
    def authentication(self, value: Mapping[str, Any] | None) -> None:
        # Most requests have credentials and nothing else for their call (an authenticated get:
        # -6 % instructions).
        if self._framework is None:
            self._authentication = value
        else:
            self._framework.authentication = value

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


class Headers(MutableMapping[str, str]):
    """Names in lower case to values; look-ups take any case.

    The values of a header that is sent several times are joined by ``", "``. Of headers that may
    occur only once, the first one counts.

    Middleware may set and delete them: what runs behind it (body parsers, services) reads that. A
    mounted ASGI application gets them as they were sent.

    Args:
        raw: The headers of an ASGI scope, whose names are in lower case.

    Attributes:
        sent: The headers as they were sent; of those that are there twice, the last one.
    """

    __slots__ = ("_raw", "_values", "sent")

    def __init__(self, raw: Collection[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._values: dict[str, str] | None = None
        self.sent: dict[bytes, bytes] = dict(raw)

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
        # Most headers are never looked at, so only what is asked for is decoded (bench rest,
        # instructions of a POST: -5 %).
        values = self._values
        if values is None:
            raw = self.sent.get(_ENCODED.get(name) or name.lower().encode("latin-1", "replace"))
            if raw is None:
                return default
            if len(self.sent) == len(self._raw):  # no header is repeated
                return raw.strip(b" \t").decode("latin-1")
            values = self._all()
        return values.get(name.lower(), default)

    def of_body(self) -> tuple[bytes, str]:
        """Return what ``content-type`` and ``content-encoding`` say, empty for one not sent."""
        sent = self.sent
        # Nearly all bodies are sent as they are: one look-up, and no call of `get`.
        if b"content-encoding" not in sent and self._values is None and len(sent) == len(self._raw):
            return sent.get(b"content-type", b""), ""
        content_type = self.get("content-type") or ""  # middleware may have set any text
        return content_type.encode("latin-1", "replace"), self.get("content-encoding") or ""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        # Header values may be secrets; a repr ends up in logs.
        return f"<Headers {', '.join(self._all())}>"


def split_path(scope: Scope) -> tuple[str, str]:
    """Return the prefix where an application is mounted in another, and the path below it.

    Both are percent-encoded, as they were sent. ASGI has the path twice, ``path`` decoded and
    ``raw_path`` as it was sent, and ``root_path`` decoded alone. Where these disagree, ``path``
    counts: another application has gone by it.

    Args:
        scope: Of a request or a websocket.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    raw: bytes | None = scope.get("raw_path")
    if not root and raw is not None and _PERCENT not in raw and "%" not in path:
        return "", path  # nearly all requests
    root = root.rstrip("/")
    encoded = "" if raw is None else raw.decode("latin-1")
    is_as_sent = raw is not None and _decoded(encoded) == path
    if not is_as_sent:
        encoded = quote(path, safe=_PATH_SAFE)
    if not (path == root or path.startswith(root + "/")):  # a proxy has taken the prefix away
        return "", encoded
    prefix = "/".join(encoded.split("/", root.count("/") + 1)[: root.count("/") + 1])
    if _decoded(prefix) != root:  # /out%2Fapi, which an application outside has read as /out/api
        rest = quote(path[len(root) :], safe=_PATH_SAFE)
        return quote(root, safe=_PATH_SAFE), rest or "/"
    return prefix, encoded[len(prefix) :] or "/"


def is_normal(scope: Scope) -> bool:
    """Tell whether `normalized` would change nothing; it may be wrong about a path with a ``%``."""
    return "//" not in scope.get("path", "") and _PERCENT not in (scope.get("raw_path") or b"")


def normalized(scope: Scope) -> Scope:
    """Return a scope whose path has one slash instead of several, and no needless escapes.

    ``//admin`` and ``/%61dmin`` become ``/admin``. Middleware that compares paths, as a guard of
    ``/admin`` does, must see all that files, routes and mounted applications take for that path, so
    they all get the same one.
    """
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    encoded = "" if raw is None else raw.decode("latin-1")
    if raw is None or _decoded(encoded) != path:
        encoded = quote(path, safe=_PATH_SAFE)
    normal = _SLASHES.sub("/", _without_needless_escapes(encoded))
    changes: dict[str, object] = {"path": _decoded(normal), "raw_path": normal.encode("latin-1")}
    if _SLASHES.search(encoded.strip("/")):
        changes[SENT_PATH] = encoded
    return {**scope, **changes}


def _without_needless_escapes(path: str) -> str:
    if _NEEDLESS_ESCAPES.search(path) is None:
        return path
    path = _PERCENT_ALONE.sub("%25", path)  # %%361 would become %61
    return _NEEDLESS_ESCAPES.sub(lambda run: _decoded(run[0]), path)


def _decoded(path: str) -> str:
    return percent_decoded(path).decode(errors="replace")


def without_id(path: str) -> str:
    """Return the path of a record with dots in the place of its id."""
    return f"{path.rstrip('/').rpartition('/')[0]}/..."
