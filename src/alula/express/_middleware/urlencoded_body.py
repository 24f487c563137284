"""Bodies as HTML forms send them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from alula.errors import BadRequest, UnsupportedMediaType
from alula.express._body_parsing import BodyParser
from alula.query import parse

__all__ = ["urlencoded"]

MAX_DEPTH: Final = 32
MAX_ITEMS: Final = 1000

_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii"})


def urlencoded(*, limit: int | str | None = None, extended: bool = True) -> Any:
    """Return middleware that parses ``application/x-www-form-urlencoded`` into ``req.body``.

    A form may have 1,000 fields, and 32 pairs of brackets in a name; more is a 400.

    Args:
        limit: Size in bytes, or such as ``"100kb"``; more is a 413. None takes the setting
            ``body limit``, 1 MiB where that is not set.
        extended: Read bracket notation into lists and objects; else names are taken as they are.

    Raises:
        ValueError: ``limit`` is no size.
        PayloadTooLarge, UnsupportedMediaType, BadRequest: By the middleware, for such a body.
    """
    read = _read_extended if extended else _read_flat
    return BodyParser("application/x-www-form-urlencoded", limit, partial(_decode, read))


def _decode(read: Callable[[str], dict[str, Any]], raw: bytes, charset: str) -> dict[str, Any]:
    if charset not in _CHARSETS:
        raise UnsupportedMediaType(f"Forms in the charset {charset} are not supported; send utf-8")
    if raw.count(b"&") >= MAX_ITEMS:
        raise BadRequest(f"The form has more than {MAX_ITEMS} fields")
    try:
        return read(raw.decode())
    except UnicodeDecodeError:
        raise BadRequest("The form is no valid UTF-8") from None


def _read_extended(text: str) -> dict[str, Any]:
    try:
        return parse(text, array_limit=MAX_ITEMS, depth=MAX_DEPTH, parameter_limit=MAX_ITEMS)
    except BadRequest:  # which speaks of a query string
        raise BadRequest(f"A name in the form has more than {MAX_DEPTH} levels") from None


def _read_flat(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, errors="strict"):
        old = values.get(name)
        if isinstance(old, list):
            old.append(value)
        else:
            values[name] = value if old is None else [old, value]
    return values
