"""Bodies in JSON."""

from __future__ import annotations

import codecs
from functools import partial
from typing import Any, Final

from alula.errors import BadRequest, UnsupportedMediaType
from alula.express.body_reader import BodyParser
from alula.express.encoding import loads

__all__ = ["json"]

_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii"})
_OTHER_CHARSETS: Final = frozenset({"utf-16", "utf-16le", "utf-16be", "utf-32"})


def json(*, limit: int | str | None = None, strict: bool = True) -> Any:
    """Return middleware that parses bodies of the type ``application/json`` into ``req.body``.

    An empty body gives ``{}``. Integers stay exact, whatever their size.

    Args:
        limit: Size in bytes, or such as ``"100kb"``; more is a 413. None takes the setting
            ``body limit``, 1 MiB where that is not set.
        strict: Take objects and lists only; else any JSON value.

    Raises:
        ValueError: ``limit`` is no size.
        PayloadTooLarge, UnsupportedMediaType, BadRequest: By the middleware, for such a body.
    """
    return BodyParser("application/json", limit, partial(_decode, strict))


def _decode(strict: bool, raw: bytes, charset: str) -> Any:
    try:
        if charset in _OTHER_CHARSETS:
            raw = raw.decode(charset).encode()
        elif charset not in _UTF_8:
            raise UnsupportedMediaType(
                f"JSON in the charset {charset} is not supported; send utf-8"
            )
        raw = raw.removeprefix(codecs.BOM_UTF8)
        if not raw:
            return {}
        value = loads(raw)
    except ValueError as error:
        raise BadRequest(f"The body is no valid JSON: {error}") from None
    if strict and not isinstance(value, dict | list):
        raise BadRequest("The body must be a JSON object or array")
    return value
