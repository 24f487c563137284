"""Content negotiation: the Accept header against the media types that an answer can have."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["best_match", "media_type"]

_SHORT = {
    "json": "application/json",
    "html": "text/html",
    "text": "text/plain",
    "xml": "application/xml",
    "csv": "text/csv",
}


def media_type(name: str) -> str:
    """Return a media type in full: ``json`` is ``application/json``."""
    return _SHORT.get(name, name)


def best_match(accept: str | None, types: Iterable[str]) -> str | None:
    """Return the type that an Accept header prefers, None where it takes none of them.

    Quality comes first, then how precisely the header names the type, then the order of ``types``.
    No header, or an empty one, takes the first.
    """
    offered = list(types)
    if not accept:
        return offered[0] if offered else None
    ranges = [_parse_range(part) for part in accept.split(",")]
    best, best_rank = None, (0.0, 0)
    for name in offered:
        rank = _rank(media_type(name), ranges)
        if rank[0] > 0 and rank > best_rank:
            best, best_rank = name, rank
    return best


def _parse_range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in text.split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = min(max(float(value), 0.0), 1.0)
            except ValueError:
                quality = 0.0
    return name.lower(), quality


def _rank(name: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """Return quality and precision by the most precise range that covers a type."""
    family = name.partition("/")[0] + "/*"
    rank, precision = (0.0, 0), 0
    for covered, quality in ranges:
        found = 3 if covered == name else 2 if covered == family else 1 if covered == "*/*" else 0
        if found > precision:
            rank, precision = (quality, found), found
    return rank
