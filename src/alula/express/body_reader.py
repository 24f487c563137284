"""A request's body as bytes, within a limit, whatever way it was sent."""

from __future__ import annotations

import re
import zlib
from typing import Final, NamedTuple

from alula.errors import BadRequest, PayloadTooLarge, UnsupportedMediaType
from alula.express.request import Request

__all__ = ["DEFAULT_LIMIT", "ContentType", "content_type_of", "parse_size", "read_body"]

DEFAULT_LIMIT: Final = 1024 * 1024
"""Bytes that a body may have, where neither the parser nor the setting ``body limit`` says."""

_UNITS: Final = {"": 1, "b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}

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
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?b)?", size.strip().lower())
    if found is None:
        raise ValueError(f"{size!r} is no size; write a number of bytes, or such as '100kb'")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def content_type_of(req: Request, default_charset: str = "utf-8") -> ContentType:
    """Return the content type of a request, empty where it names none."""
    name, _, parameters = (req.headers.get("content-type") or "").lower().partition(";")
    found = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", parameters)
    return ContentType(name.strip(), found[1] if found else default_charset)


async def read_body(req: Request, limit: int) -> bytes:
    """Read the whole body, and keep it readable for an ASGI application behind.

    Raises:
        PayloadTooLarge: It has more than ``limit`` bytes, packed or unpacked.
        UnsupportedMediaType: It is packed in a way that is not known.
        BadRequest: It ends too early, or can not be unpacked.
    """
    length = req.headers.get("content-length") or ""
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    body = bytearray()
    more = True
    while more:
        message = await req.receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("The connection was closed before the body had arrived")
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        more = message.get("more_body", False)
    raw = bytes(body)
    req.replay(raw)
    encoding = (req.headers.get("content-encoding") or "identity").lower()
    return raw if encoding == "identity" else _unpack(raw, encoding, limit)


def _unpack(raw: bytes, encoding: str, limit: int) -> bytes:
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise UnsupportedMediaType(f"The content encoding {encoding} is not supported; use gzip")
    unpacker = zlib.decompressobj(bits)
    try:
        # One byte over the limit tells that there is more, and never unpacks a bomb.
        body = unpacker.decompress(raw, limit + 1)
    except zlib.error as error:
        raise BadRequest(f"The body is no valid {encoding}") from error
    if len(body) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise BadRequest(f"The body is no valid {encoding}: it ends too early")
    return body


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body is too large; the limit is {limit} bytes")
