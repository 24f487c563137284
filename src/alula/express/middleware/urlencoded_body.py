"""Bodies as HTML forms send them."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from alula.errors import BadRequest, UnsupportedMediaType
from alula.express.body_reader import DEFAULT_LIMIT, content_type_of, parse_size, read_body
from alula.express.request import Request
from alula.express.response import Response
from alula.query import parse
from alula.types import UNSET

__all__ = ["urlencoded"]

MAX_DEPTH = 32
MAX_ITEMS = 1000


def urlencoded(*, limit: int | str | None = None, extended: bool = True) -> Any:
    """Return middleware that parses ``application/x-www-form-urlencoded`` into ``req.body``.

    Args:
        limit: Size in bytes, or such as ``"100kb"``; more is a 413. None takes the setting
            ``body limit``, 1 MiB where that is not set.
        extended: Read bracket notation into lists and objects; else names are taken as they are.

    Raises:
        ValueError: ``limit`` is no size.
        PayloadTooLarge, UnsupportedMediaType, BadRequest: By the middleware, for such a body.
    """
    size = None if limit is None else parse_size(limit)
    read = _read_extended if extended else _read_flat

    async def parse_body(req: Request, next: Any) -> None:
        content_type = content_type_of(req)
        if content_type.name == "application/x-www-form-urlencoded" and req.body is UNSET:
            raw = await read_body(req, size or req.app.settings.get("body limit", DEFAULT_LIMIT))
            if content_type.charset not in {"utf-8", "us-ascii"}:
                raise UnsupportedMediaType(
                    f"Forms in the charset {content_type.charset} are not supported; send utf-8"
                )
            req.body = read(_text(raw))
        await next()

    def middleware(req: Request, _: Response, next: Any) -> Any:
        return parse_body(req, next) if req.has_body else next()

    return middleware


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadRequest("The body is no valid UTF-8") from None


def _read_extended(text: str) -> dict[str, Any]:
    return parse(text, array_limit=MAX_ITEMS, depth=MAX_DEPTH, parameter_limit=MAX_ITEMS)


def _read_flat(text: str) -> dict[str, Any]:
    if text.count("&") >= MAX_ITEMS:
        raise BadRequest(f"The body has more than {MAX_ITEMS} parameters")
    values: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in values:
            old = values[name]
            values[name] = [*old, value] if isinstance(old, list) else [old, value]
        else:
            values[name] = value
    return values
