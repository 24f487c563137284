"""Bodies in JSON."""

from __future__ import annotations

import codecs
from functools import partial
from typing import Any, Final

from alula.errors import BadRequest, UnsupportedMediaType
from alula.express._body_parsing import BodyParser
from alula.express._json_encoding import loads

__all__ = ["json"]

MAX_CONTAINERS: Final = 50_000
"""How many objects and lists a body may hold. Each costs the process some microseconds on its way
through checks, copies and the answer, so that these take about a quarter of a second."""

_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii"})
_OTHER_CHARSETS: Final = frozenset({"utf-16", "utf-16le", "utf-16be", "utf-32"})


def json(
    *, limit: int | str | None = None, strict: bool = True, max_containers: int = MAX_CONTAINERS
) -> Any:
    """Return middleware that parses bodies of the type ``application/json`` into ``req.body``.

    An empty body gives ``{}``. Integers stay exact, whatever their size.

    Args:
        limit: Size in bytes, or such as ``"100kb"``; more is a 413. None takes the setting
            ``body limit``, 1 MiB where that is not set.
        strict: Take objects and lists only; else any JSON value.
        max_containers: How many objects and lists a body may hold; more is a 400. A service that
            takes very many small ones, such as coordinates, needs a higher number.

    Raises:
        ValueError: ``limit`` is no size, or ``max_containers`` is not a number from 1 on.
        PayloadTooLarge, UnsupportedMediaType, BadRequest: By the middleware, for such a body.
    """
    if type(max_containers) is not int or max_containers < 1:
        raise ValueError(f"max_containers is {max_containers!r}; give a whole number from 1 on")
    return BodyParser("application/json", limit, partial(_decode, strict, max_containers))


def _decode(strict: bool, max_containers: int, raw: bytes, charset: str) -> Any:
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
        value = loads(raw, max_containers)
    except ValueError as error:
        raise BadRequest(f"The body is no valid JSON: {error}") from None
    if strict and not isinstance(value, dict | list):
        raise BadRequest("The body must be a JSON object or array")
    return value
