"""Content negotiation: the Accept headers against what an answer can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["best_match", "media_type", "quality_of"]

_SHORT: Final = {
    "json": "application/json",
    "html": "text/html",
    "text": "text/plain",
    "xml": "application/xml",
    "csv": "text/csv",
}


_MOST_RANGES: Final = 100
"""What a header names beyond these is not read; nobody has so many wishes."""


class _Range(NamedTuple):
    """One part of an Accept header."""

    name: str
    quality: float


def media_type(name: str) -> str:
    """Return a media type in full: ``json`` is ``application/json``.

    Raises:
        ValueError: It is a short name that is not known.
    """
    if "/" in name:
        return name
    if name not in _SHORT:
        raise ValueError(
            f"{name!r} is no media type; write it in full, such as 'image/png', or one of"
            f" {', '.join(_SHORT)}"
        )
    return _SHORT[name]


def best_match(accept: str | None, types: Iterable[str]) -> str | None:
    """Return the type that an Accept header prefers, None where it takes none of them.

    Quality comes first, then how precisely the header names the type, then its place in the
    header, then the order of ``types``. No header, or an empty one, takes the first.

    Raises:
        ValueError: One of ``types`` is a short name that is not known.
    """
    offered = {name: media_type(name).partition(";")[0].strip().lower() for name in types}
    if not accept or not accept.strip():
        return next(iter(offered), None)
    ranges = _read(accept)
    best, best_rank = None, (0.0, 0, 0)
    for name, full in offered.items():
        rank = _rank(full, ranges)
        if rank[0] > 0 and rank > best_rank:
            best, best_rank = name, rank
    return best


def quality_of(accept: str, names: Iterable[str]) -> float:
    """Return how much a header such as Accept-Encoding likes something, 0 for not at all.

    Args:
        accept: The header.
        names: The names that the thing goes by.
    """
    wanted = frozenset(names)
    return max((found.quality for found in _read(accept) if found.name in wanted), default=0.0)


def _read(header: str) -> list[_Range]:
    return [_read_range(part) for part in header.split(",", _MOST_RANGES)[:_MOST_RANGES]]


def _read_range(text: str) -> _Range:
    name, *parameters = (part.strip() for part in text.lower().split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                quality = min(max(float(value), 0.0), 1.0)
            except ValueError:
                quality = 0.0
    return _Range(name, quality)


def _rank(name: str, ranges: list[_Range]) -> tuple[float, int, int]:
    """Return quality, precision and place by the most precise range that covers a type."""
    family = name.partition("/")[0] + "/*"
    rank, precision = (0.0, 0, 0), 0
    for at, (covered, quality) in enumerate(ranges):
        found = 3 if covered == name else 2 if covered == family else 1 if covered == "*/*" else 0
        if found > precision:
            rank, precision = (quality, found, -at), found
    return rank
