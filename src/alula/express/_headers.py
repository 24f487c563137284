"""Request headers as a mapping, read from the ASGI scope when someone asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping

__all__ = ["Headers"]

# Of these the first counts, as in Node's HTTP parser; all others are joined.
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


class Headers(MutableMapping[str, str]):
    """Names in lower case to values; look-ups take any case.

    A header that is sent several times is joined by ``", "``, except for those that can only
    stand once: of these the first counts.

    Middleware may set and delete them: what runs behind it (body parsers, services) reads that. An
    ASGI application that is mounted gets them as they were sent.

    Args:
        raw: The headers of an ASGI scope, whose names are in lower case.
    """

    __slots__ = ("_raw", "_values")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._values: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        values = self._values
        if values is None:
            values = self._values = {}
            for raw_name, raw_value in self._raw:
                name = raw_name.decode("latin-1")
                # Space around a value is no part of it; httptools leaves that at its end.
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
    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return a header's value, or ``default``."""
        return self._all().get(name.lower(), default)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        # Header values may be secrets; a repr ends up in logs.
        return f"<Headers {', '.join(self._all())}>"
