"""What a client prefers by its headers, and what may be sent as one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = [
    "best_match",
    "header_text",
    "is_header_name",
    "media_type",
    "quality_of",
]

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
    ranges: list[_Range] = []
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


# -- what is sent ----------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2
# A line break in a value would end the header, and let an attacker add others.
_FORBIDDEN: Final = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


@lru_cache(maxsize=256)
def is_header_name(name: str) -> bool:
    """Tell whether a text is the name of a header."""
    return _NAME.fullmatch(name) is not None


def header_text(name: str, value: object) -> str:
    """Return the text of a header; numbers are written out.

    Raises:
        TypeError: The value is neither text nor a number.
        ValueError: Name or value cannot be sent.
    """
    text = str(value) if isinstance(value, int) else value
    if not isinstance(text, str):
        raise TypeError(f"the header {name!r} takes text or a number, not {value!r}")
    if _FORBIDDEN.search(text) or not is_header_name(name):
        raise ValueError(f"the header {name!r} cannot be sent with the value {text!r}")
    return text
