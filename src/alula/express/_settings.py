"""The settings that the web layer reads: ``query parser``, ``body limit``, ``cookie secret``.

They share one dict with the settings of the `App`, so other names may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from alula._cookies import CookieSigner
from alula.query import parse

__all__ = [
    "DEFAULT_BODY_LIMIT_BYTES",
    "QueryParser",
    "Size",
    "body_limit",
    "check_setting",
    "cookie_signer",
    "parse_size",
    "query_parser",
]

DEFAULT_BODY_LIMIT_BYTES: Final = 1024 * 1024
"""The largest body, where neither its parser nor the setting ``body limit`` says otherwise."""

QueryParser: TypeAlias = Callable[[str], dict[str, Any]]

Size: TypeAlias = int | str
"""A number of bytes, or a text such as ``"100kb"``."""

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?b)?", re.ASCII | re.IGNORECASE)
_BYTES_OF_UNIT: Final = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3}


def check_setting(name: str, value: object) -> None:
    """Check a setting when it is set, so that no request fails because of it.

    Raises:
        TypeError: ``query parser`` is not a function of the query string, or ``cookie secret``
            not a text.
        ValueError: ``body limit`` is not a size, or ``cookie secret`` too short.
    """
    if name == "cookie secret":
        CookieSigner(value)  # type: ignore[arg-type]  # it checks the type
    if name == "body limit":
        parse_size(value)
    if name == "query parser" and not callable(value):
        raise TypeError(
            f"the setting 'query parser' is {value!r}; give a function that takes the query"
            " string and returns a dict, such as functools.partial(parse, depth=10)"
        )


def query_parser(settings: Mapping[str, Any]) -> QueryParser:
    """Return the function that reads query strings: the setting, or `alula.query.parse`."""
    parser: QueryParser = settings.get("query parser", parse)
    return parser


def body_limit(settings: Mapping[str, Any]) -> int:
    """Return the size limit of bodies in bytes.

    Raises:
        ValueError: The setting is not a size.
    """
    size = settings.get("body limit")
    return DEFAULT_BODY_LIMIT_BYTES if size is None else parse_size(size)


def cookie_signer(settings: Mapping[str, Any]) -> CookieSigner:
    """Return what signs cookies with the setting ``cookie secret``.

    Raises:
        LookupError: There is no such setting.
        TypeError: It is not a text.
        ValueError: It is too short.
    """
    secret = settings.get("cookie secret")
    if secret is None:
        raise LookupError(
            "signed cookies need a secret: app.set('cookie secret', ...), with 32 bytes or more"
        )
    return CookieSigner(secret)


def parse_size(size: object) -> int:
    """Return a number of bytes.

    Examples:
        >>> parse_size("1.5mb")
        1572864

    Args:
        size: ``102400``, ``"100kb"``, ``"1.5mb"``.

    Raises:
        ValueError: It is neither a number of bytes nor such a text.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if match is None:
        raise ValueError(f"{size!r} is not a size; write a number of bytes, or such as '100kb'")
    return int(float(match[1]) * _BYTES_OF_UNIT[(match[2] or "b").lower()])
