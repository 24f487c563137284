"""Body parsers: `json`, `urlencoded`, and the size limits that hold for both.

How slowly a body may arrive is the business of `alula.express._connection_limits`.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from alula._json_encoding import MAX_CONTAINERS, loads
from alula._routes import percent_decoded
from alula.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from alula.express._chain import Middleware, NextFunction
from alula.express._request import Request
from alula.express._response import Response
from alula.express._settings import Size, body_limit, parse_size
from alula.query import parse
from alula.types import SCALAR_TYPES, UNSET

__all__ = [
    "BodyParser",
    "ContentType",
    "content_type_of",
    "joined_parsers",
    "json",
    "read_body",
    "urlencoded",
]

MAX_FORM_DEPTH: Final = 32
MAX_FORM_FIELDS: Final = 1000

_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii"})
_OTHER_JSON_CHARSETS: Final = frozenset({"utf-16", "utf-16le", "utf-16be", "utf-32"})

# A Content-Length of more digits is over every limit, and `int` refuses more than 4,300 of them.
_MAX_LENGTH_DIGITS: Final = 18

# Longer content types, and more of them, are not cached: they would let a client fill the memory.
_MAX_CACHED_CHARACTERS: Final = 100
_MAX_CACHED: Final = 100
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)")

# An object, or a list of objects or texts; names of fields such as [0] stay possible.
_LIKE_JSON: Final = re.compile(r"\s*(?:\{|\[\s*[{\"])")
_START_CHARACTERS: Final = 100  # of a body, in which JSON shows

_NOT_ENCODED: Final = frozenset({"", "identity"})
_Decode: TypeAlias = Callable[[bytes, str], Any]

# What zlib calls its formats: gzip has a header of its own, "deflate" is a zlib stream.
_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def json(
    *, limit: Size | None = None, strict: bool = True, max_containers: int = MAX_CONTAINERS
) -> Middleware:
    """Return middleware that parses ``application/json`` bodies into ``req.body``.

    An empty body gives ``{}``. Integers stay exact, whatever their size.

    Examples:
        >>> from alula.express import express, json
        >>> web = express()
        >>> web = web.use(json(limit="100kb"))
        >>> web = web.post("/echo", lambda req, res: res.json(req.body))

    Args:
        limit: Size in bytes, or such as ``"100kb"``; more is a 413. None takes the setting
            ``body limit``, 1 MiB where that is not set.
        strict: Take objects and lists only; else any JSON value.
        max_containers: How many objects and lists a body may hold; more is a 400. A service that
            takes very many small ones, such as coordinates, needs a higher number.

    Raises:
        ValueError: ``limit`` is not a size, or ``max_containers`` is not a whole number over 0.
        PayloadTooLarge: By the middleware, for a body over ``limit``.
        UnsupportedMediaType: By the middleware, for an unknown charset or content encoding.
        BadRequest: By the middleware, for a body that is not such JSON.
    """
    if type(max_containers) is not int or max_containers < 1:
        raise ValueError(f"max_containers is {max_containers!r}; give a whole number over 0")

    def decode(raw: bytes, charset: str) -> Any:
        try:
            if charset in _UTF_8 and raw.startswith(b"{"):  # nearly all bodies
                return loads(raw, max_containers)
            if charset not in _UTF_8:
                if charset not in _OTHER_JSON_CHARSETS:
                    raise UnsupportedMediaType(
                        f"JSON in the charset {charset} is not supported; send utf-8"
                    )
                raw = raw.decode(charset).encode()
            raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw:
                return {}
            value = loads(raw, max_containers)
        except ValueError as error:
            raise BadRequest(f"The body is not valid JSON: {error}") from None
        if strict and type(value) in SCALAR_TYPES:
            raise BadRequest("The body must be a JSON object or array")
        return value

    size = None if limit is None else parse_size(limit)
    return BodyParser({"application/json": (size, decode)}, "json")


def urlencoded(*, limit: Size | None = None, extended: bool = True) -> Middleware:
    """Return middleware that parses ``application/x-www-form-urlencoded`` into ``req.body``.

    A form may have 1,000 fields, and 32 pairs of brackets in a name; more is a 400.

    Args:
        limit: Size in bytes, or such as ``"100kb"``; more is a 413. None takes the setting
            ``body limit``, 1 MiB where that is not set.
        extended: Read bracket notation into lists and objects; else names are taken as they are.

    Raises:
        ValueError: ``limit`` is not a size.
        PayloadTooLarge: By the middleware, for a body over ``limit``.
        UnsupportedMediaType: By the middleware, for an unknown charset or content encoding, and for
            JSON that is sent as a form.
        BadRequest: By the middleware, for a body that is not such a form.
    """

    def decode(raw: bytes, charset: str) -> dict[str, Any]:
        if charset not in _UTF_8:
            raise UnsupportedMediaType(
                f"Forms in the charset {charset} are not supported; send utf-8"
            )
        if raw.count(b"&") >= MAX_FORM_FIELDS:
            raise BadRequest(f"The form has more than {MAX_FORM_FIELDS} fields")
        try:
            text = raw.removeprefix(codecs.BOM_UTF8).decode()
            start = text[:_START_CHARACTERS].replace("+", " ")
            if _LIKE_JSON.match(percent_decoded(start).decode(errors="replace")):
                # curl -d says that it sends a form. The text would become the name of a field.
                raise UnsupportedMediaType(
                    "The body looks like JSON, but its content type says that it is a form; send"
                    " the header Content-Type: application/json"
                )
            if not extended:
                return _flat_form(text)
        except UnicodeDecodeError:
            raise BadRequest("The form is not valid UTF-8") from None
        limits = {"array_limit": MAX_FORM_FIELDS, "parameter_limit": MAX_FORM_FIELDS}
        try:
            return parse(text, depth=MAX_FORM_DEPTH, **limits)
        except BadRequest:  # its message is about a query string
            raise BadRequest(f"A name in the form has more than {MAX_FORM_DEPTH} levels") from None

    size = None if limit is None else parse_size(limit)
    return BodyParser({"application/x-www-form-urlencoded": (size, decode)}, "urlencoded")


def _flat_form(text: str) -> dict[str, Any]:
    """Return the values of a form by the names as they are, lists for names that repeat.

    Raises:
        UnicodeDecodeError: An escape is not UTF-8.
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.replace("+", " ").split("&")):
        encoded_name, _, encoded_value = part.partition("=")
        name = percent_decoded(encoded_name).decode()
        value = percent_decoded(encoded_value).decode()
        old: str | list[str] | None = values.get(name)
        if isinstance(old, list):
            old.append(value)
        else:
            values[name] = value if old is None else [old, value]
    return values


class BodyParser:
    """Middleware that parses bodies of some media types into ``req.body``.

    Args:
        by_type: By media type, in lower case and without parameters: the limit in bytes, of which
            None takes the setting ``body limit``; and a function that gets the bytes and the
            charset that a request names, and returns the value.
        name: The name of the function that made it, for messages.

    Attributes:
        by_type: As given.
    """

    def __init__(self, by_type: Mapping[str, tuple[int | None, _Decode]], name: str) -> None:
        self.by_type = by_type
        self.__qualname__ = name
        self._by_content_type: dict[bytes, tuple[int | None, _Decode, str]] = {}

    def __call__(self, req: Request, _: Response, next: NextFunction) -> Awaitable[None]:
        """Parse the body of a request, and go on."""
        if not req.has_body or req.body is not UNSET:  # it has no body, or another parser took it
            return next()
        content_type = req.headers.of_body()[0]
        taken = self._by_content_type.get(content_type) or self._look_up(content_type)
        return next() if taken is None else self._parse(req, next, *taken)

    async def _parse(
        self, req: Request, next: NextFunction, limit: int | None, decode: _Decode, charset: str
    ) -> None:
        req.body = decode(await read_body(req, limit), charset)
        await next()

    def _look_up(self, content_type: bytes) -> tuple[int | None, _Decode, str] | None:
        """Return limit, ``decode`` and charset for a content type, None for one of others."""
        name, charset = _parse_content_type(content_type.decode("latin-1"))
        if name not in self.by_type:
            return None
        taken = (*self.by_type[name], charset)
        known = self._by_content_type
        if len(content_type) < _MAX_CACHED_CHARACTERS and len(known) < _MAX_CACHED:
            known[content_type] = taken
        return taken


def joined_parsers(items: Iterable[Any]) -> list[Any]:
    """Return what ``use`` was given, with body parsers that follow one another as one."""
    joined: list[Any] = []
    for item in items:
        before = joined[-1] if joined else None
        if isinstance(item, BodyParser) and isinstance(before, BodyParser):
            # The first parser of a content type takes its bodies, as it would in a chain.
            joined[-1] = BodyParser({**item.by_type, **before.by_type}, before.__qualname__)
        else:
            joined.append(item)
    return joined


class ContentType(NamedTuple):
    """A content type without its parameters, and its charset, both in lower case."""

    name: str
    charset: str


def content_type_of(req: Request) -> ContentType:
    """Return the content type of a request; its name is empty if the request has none."""
    return _parse_content_type(req.headers.get("content-type") or "")


def _parse_content_type(text: str) -> ContentType:
    text = text.lower()
    charset = _CHARSET.search(text)
    return ContentType(text.partition(";")[0].strip(), charset[1] if charset else "utf-8")


async def read_body(req: Request, limit: int | None) -> bytes:
    """Read the whole body, and keep it readable for an ASGI application behind.

    Args:
        req: The request.
        limit: The largest size in bytes, packed and unpacked. None takes the setting
            ``body limit`` of the application.

    Raises:
        PayloadTooLarge: It has more bytes, packed or unpacked.
        UnsupportedMediaType: Its content encoding is unknown.
        BadRequest: It ends too early, or cannot be unpacked.
        ValueError: The setting is not a size.
    """
    if limit is None:
        limit = body_limit(req.app.settings)
    length = req.headers.get("content-length") or ""
    if length.isdecimal() and (len(length) > _MAX_LENGTH_DIGITS or int(length) > limit):
        raise _too_large(limit)
    raw, more = await req.receive_part()
    if len(raw) > limit:
        raise _too_large(limit)
    if more:  # a small body comes in one part: it is not copied
        body = bytearray(raw)
        while more:
            part, more = await req.receive_part()
            body += part
            if len(body) > limit:
                raise _too_large(limit)
        raw = bytes(body)
    req.replay(raw)
    return _unpacked(raw, req.headers.get("content-encoding") or "", limit)


def _unpacked(raw: bytes, encoding: str, limit: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in _NOT_ENCODED or not raw:
        return raw
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        error = UnsupportedMediaType(f"The content encoding {encoding} is not supported; use gzip")
        error.headers = {"Accept-Encoding": "gzip, deflate"}
        raise error
    unpacker = zlib.decompressobj(bits)
    try:
        # One byte over the limit shows that there is more, without unpacking a zip bomb.
        body = unpacker.decompress(raw, limit + 1)
    except zlib.error:
        raise BadRequest(f"The body is not valid {encoding}") from None
    if len(body) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise BadRequest(f"The body is not valid {encoding}: it ends too early")
    if unpacker.unused_data:
        raise BadRequest(f"The body is not valid {encoding}: something follows its end")
    return body


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is too large; the limit is {limit} bytes")
