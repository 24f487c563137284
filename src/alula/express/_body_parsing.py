"""A request's body as bytes, within a limit, whatever way it was sent."""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from alula.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from alula.express._chain import GO_ON
from alula.express._request import Request
from alula.express._response import Response
from alula.types import UNSET

__all__ = [
    "DEFAULT_LIMIT",
    "BodyParser",
    "ContentType",
    "content_type_of",
    "parse_size",
    "read_body",
]

DEFAULT_LIMIT: Final = 1024 * 1024
"""Bytes that a body may have, where neither the parser nor the setting ``body limit`` says."""

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?b)?", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}
_LONGEST_LENGTH: Final = 18  # digits; more would be no size of this world

_USUAL_LENGTH: Final = 100  # of a content type that is kept with what it says
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)")

# What zlib calls its formats: gzip has a header of its own, "deflate" is a zlib stream.
_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class ContentType(NamedTuple):
    """A content type without its parameters, and its charset, both in lower case."""

    name: str
    charset: str


def parse_size(size: int | str) -> int:
    """Return a number of bytes: ``102400``, ``"100kb"``, ``"1.5mb"``.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is None:
        raise ValueError(f"{size!r} is no size; write a number of bytes, or such as '100kb'")
    return int(float(found[1]) * _UNITS[(found[2] or "b").lower()])


def content_type_of(req: Request) -> ContentType:
    """Return the content type of a request, without a name where it says none."""
    text = req.headers.get("content-type") or ""
    return _known_type(text) if len(text) < _USUAL_LENGTH else _content_type(text)


def _content_type(text: str) -> ContentType:
    text = text.lower()
    found = _CHARSET.search(text)
    return ContentType(text.partition(";")[0].strip(), found[1] if found else "utf-8")


_known_type = lru_cache(maxsize=128)(_content_type)

Size: TypeAlias = int | str | None
"""A number of bytes, such a text as ``"100kb"``, or None for what is set elsewhere."""


class BodyParser:
    """Middleware that parses bodies of one media type into ``req.body``.

    Args:
        media_type: In lower case, without parameters.
        limit: Size in bytes, or such as ``"100kb"``; None takes the setting ``body limit``.
        decode: Gets the bytes and the charset that the request names; returns the value.

    Raises:
        ValueError: ``limit`` is no size.
    """

    def __init__(self, media_type: str, limit: Size, decode: Callable[[bytes, str], Any]) -> None:
        self._media_type = media_type
        self._limit = None if limit is None else parse_size(limit)
        self._decode = decode

    async def __call__(self, req: Request, res: Response, next: Any) -> None:
        """Parse the body of a request, and go on."""
        parsing = self.claim(req, res) if req.has_body else None
        if parsing is not None:
            await parsing
        await next()

    def claim(self, req: Request, _: Response) -> Awaitable[object] | None:
        """Return what parses the body of a request that has one, None where others do that.

        As a step that claims it costs a request no further level of the chain.
        """
        content_type = content_type_of(req)
        if content_type.name != self._media_type or req.body is not UNSET:
            return None
        return self._parse(req, content_type.charset)

    async def _parse(self, req: Request, charset: str) -> object:
        req.body = self._decode(await read_body(req, self._limit), charset)
        return GO_ON


async def read_body(req: Request, limit: int | None) -> bytes:
    """Read the whole body, and keep it readable for an ASGI application behind.

    Args:
        req: The request.
        limit: Most bytes it may have. None takes the setting ``body limit`` of the application,
            `DEFAULT_LIMIT` where that is not set.

    Raises:
        PayloadTooLarge: It has more bytes, packed or unpacked.
        UnsupportedMediaType: It is packed in a way that is not known.
        BadRequest: It ends too early, or can not be unpacked.
        ValueError: The setting is no size.
    """
    if limit is None:
        limit = parse_size(req.app.settings.get("body limit", DEFAULT_LIMIT))
    length = req.headers.get("content-length") or ""
    if length.isdecimal() and (len(length) > _LONGEST_LENGTH or int(length) > limit):
        raise _too_large(limit)
    raw, more = await req.receive_part()
    if len(raw) > limit:
        raise _too_large(limit)
    if more:
        raw = await _read_on(req, bytearray(raw), limit)
    req.replay(raw)
    encoding = (req.headers.get("content-encoding") or "identity").strip().lower()
    return raw if encoding == "identity" or not raw else _unpack(raw, encoding, limit)


async def _read_on(req: Request, body: bytearray, limit: int) -> bytes:
    more = True
    while more:
        part, more = await req.receive_part()
        body += part
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _unpack(raw: bytes, encoding: str, limit: int) -> bytes:
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        error = UnsupportedMediaType(f"The content encoding {encoding} is not supported; use gzip")
        error.headers = {"Accept-Encoding": "gzip, deflate"}
        raise error
    unpacker = zlib.decompressobj(bits)
    try:
        # One byte over the limit tells that there is more, and never unpacks a bomb.
        body = unpacker.decompress(raw, limit + 1)
    except zlib.error:
        raise BadRequest(f"The body is no valid {encoding}") from None
    if len(body) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise BadRequest(f"The body is no valid {encoding}: it ends too early")
    if unpacker.unused_data:
        raise BadRequest(f"The body is no valid {encoding}: something follows its end")
    return body


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is too large; the limit is {limit} bytes")
