"""Headers: those of a request, what a client prefers by them, and what may be sent as one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = [
    "LINE_BEGINNINGS",
    "Headers",
    "best_match",
    "check_value",
    "header_text",
    "is_header_name",
    "line_beginning",
    "media_type",
    "quality_of",
]

# Of these the first one counts, as in Node's HTTP parser; all others are joined.
_FIRST_ONLY = frozenset(
    {
        "age",
        "authorization",
        "content-length",
        "content-type",
        "etag",
        "expires",
        "from",
        "host",
        "if-modified-since",
        "if-unmodified-since",
        "last-modified",
        "location",
        "max-forwards",
        "proxy-authorization",
        "referer",
        "retry-after",
        "server",
        "user-agent",
        "x-service-method",
    }
)
_ENCODED: Final = {
    name: name.encode()
    for name in (
        "accept",
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "x-service-method",
    )
}
"""What is looked up for most requests."""

# By none of them, `error_handler` sends a page.


class Headers(MutableMapping[str, str]):
    """Names in lower case to values; look-ups take any case.

    The values of a header that is sent several times are joined by ``", "``. Of headers that may
    occur only once, the first one counts.

    Middleware may set and delete them: what runs behind it (body parsers, services) reads that. A
    mounted ASGI application gets them as they were sent.

    Args:
        raw: The headers of an ASGI scope, whose names are in lower case.

    Attributes:
        sent: The headers as they were sent; of those that are there twice, the last one.
    """

    __slots__ = ("_raw", "_values", "sent")

    def __init__(self, raw: Collection[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._values: dict[str, str] | None = None
        self.sent: dict[bytes, bytes] = dict(raw)

    def _all(self) -> dict[str, str]:
        values = self._values
        if values is None:
            values = self._values = {}
            for raw_name, raw_value in self._raw:
                name = raw_name.decode("latin-1")
                # Space around a value is not part of it; httptools leaves it at the end.
                value = raw_value.strip(b" \t").decode("latin-1")
                if name not in values:
                    values[name] = value
                elif name not in _FIRST_ONLY:
                    values[name] += ("; " if name == "cookie" else ", ") + value
        return values

    def __getitem__(self, name: str) -> str:
        return self._all()[name.lower()]

    def __setitem__(self, name: str, value: str) -> None:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"a header is text: req.headers[{str(name)!r}] = ..., not {value!r}")
        self._all()[name.lower()] = value

    def __delitem__(self, name: str) -> None:
        del self._all()[name.lower()]

    # Names in any case, and values are text alone.
    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]  # ty: ignore[incompatible-method-override]  # for text alone
        """Return a header's value, or ``default``."""
        # Most headers are never looked at, so only what is asked for is decoded (bench rest,
        # instructions of a POST: -5 %).
        values = self._values
        if values is None:
            raw = self.sent.get(_ENCODED.get(name) or name.lower().encode("latin-1", "replace"))
            if raw is None:
                return default
            if len(self.sent) == len(self._raw):  # none is there twice
                return raw.strip(b" \t").decode("latin-1")
            values = self._all()
        return values.get(name.lower(), default)

    def of_body(self) -> tuple[bytes, str]:
        """Return what ``content-type`` and ``content-encoding`` say, empty for one not sent."""
        sent = self.sent
        # Nearly all bodies are sent as they are: one look-up, and no call of `get`.
        if b"content-encoding" not in sent and self._values is None and len(sent) == len(self._raw):
            return sent.get(b"content-type", b""), ""
        content_type = self.get("content-type") or ""  # middleware may have set any text
        return content_type.encode("latin-1", "replace"), self.get("content-encoding") or ""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        # Header values may be secrets; a repr ends up in logs.
        return f"<Headers {', '.join(self._all())}>"


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

_NAME_PATTERN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, 5.6.2
_NAME: Final = re.compile(_NAME_PATTERN)
_RAW_NAME: Final = re.compile(_NAME_PATTERN.encode())
# A line break in a value would end the header, and let an attacker add others.
_FORBIDDEN: Final = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_NOT_IN_VALUES: Final = bytes({*range(0x20), 0x7F} - {ord("\t")})
_MAX_NAMES: Final = 1000

LINE_BEGINNINGS: Final[dict[bytes, bytes]] = {}
"""What `line_beginning` has returned: most responses share their names."""


def line_beginning(name: bytes) -> bytes:
    """Return the name of a header with its colon, in lower case, and remember it.

    Raises:
        RuntimeError: It is not the name of a header.
    """
    if not _RAW_NAME.fullmatch(name):
        raise RuntimeError("Invalid HTTP header name.")
    beginning = name.lower() + b": "
    if len(LINE_BEGINNINGS) < _MAX_NAMES:
        LINE_BEGINNINGS[name] = beginning
    return beginning


def check_value(value: bytes) -> None:
    """Check that the value of a header can be sent.

    Raises:
        RuntimeError: It has control characters.
    """
    if len(value.translate(None, _NOT_IN_VALUES)) < len(value):
        raise RuntimeError("Invalid HTTP header value.")


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
