"""Path patterns of routes and mounts."""

from __future__ import annotations

import re

from alula._routes import decode_segment

__all__ = ["Pattern"]

_SEGMENT = re.compile(r":[A-Za-z_]\w*|[^:*?(){}]+")


class Pattern:
    """A path with placeholders: ``/users/:id``, ``/files/*``.

    Case matters, slashes at its ends do not.

    Args:
        path: Segments; ``:name`` takes one, ``*`` at the end takes all that follow.
        whole: Whether it has to cover the whole path (a route), or a prefix of it (a mount).

    Raises:
        ValueError: A segment is neither plain text nor one of these.
    """

    def __init__(self, path: str, *, whole: bool) -> None:
        segments = [segment for segment in path.split("/") if segment]
        self._rest = segments[-1:] == ["*"]
        self._segments = segments[:-1] if self._rest else segments
        self._whole = whole and not self._rest
        for segment in self._segments:
            if not _SEGMENT.fullmatch(segment):
                raise ValueError(
                    f"{segment!r} in the path {path!r} is not understood; a segment is text or a"
                    " placeholder such as :id, and the last one may be *"
                )
        plain = "/".join(self._segments)
        # Most requests lead elsewhere: this prefix rules them out before anything is split.
        self._start = "" if ":" in plain else plain

    def match(self, path: str) -> tuple[dict[str, str], str] | None:
        """Return the placeholders' values and the prefix that was covered, None for no match.

        Args:
            path: As it was sent, percent-encoded; values and comparisons are decoded.
        """
        # Slashes at the start do not count, as in the look-up of services: a guard that is mounted
        # at /admin must see //admin, too.
        inner = path.lstrip("/")
        if not inner.startswith(self._start) and "%" not in path:
            return None
        parts = inner.split("/")
        while parts and not parts[-1]:
            parts.pop()
        wanted = self._segments
        if len(parts) < len(wanted) or (self._whole and len(parts) != len(wanted)):
            return None
        params: dict[str, str] = {}
        for segment, part in zip(wanted, parts, strict=False):
            if segment[0] == ":" and part:
                params[segment[1:]] = decode_segment(part)
            elif segment != decode_segment(part):
                return None
        if self._rest:
            params["*"] = "/".join(decode_segment(part) for part in parts[len(wanted) :])
        slashes = path[: len(path) - len(inner)] if wanted else ""
        return params, slashes + "/".join(parts[: len(wanted)])
