"""What a client shows when it connects, and from which origins it may."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl

from alula.realtime._engine import Refusal

__all__ = ["Handshake", "Origins", "headers_of", "read_query"]

_log: Final = logging.getLogger("alula.realtime")

MAX_QUERY_FIELDS: Final = 100
MAX_REPORTED_ORIGINS: Final = 100
MAX_ORIGIN_LENGTH: Final = 200

_DEFAULT_PORTS: Final = frozenset({("http", "80"), ("https", "443")})


@dataclass
class Handshake:
    """The request that opened a connection, and what the client sent to join.

    Attributes:
        query: The query of the URL, each name once.
        headers: The headers, with names in lower case.
        auth: What the client sent as its option ``auth``; an empty dict in ``admit``, which runs
            before.
        ip: The address of the client, None if unknown.
    """

    query: dict[str, str]
    headers: Mapping[str, str]
    ip: str | None
    auth: dict[str, Any] = field(default_factory=dict[str, Any])


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of an ASGI scope; those that were sent several times are joined."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        separator = "; " if name == "cookie" else ", "
        headers[name] = f"{headers[name]}{separator}{value}" if name in headers else value
    return headers


def read_query(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the query of an ASGI scope, of each name the last value.

    Raises:
        Refusal: It has too many fields.
    """
    text = scope.get("query_string", b"").decode("latin-1")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS))
    except ValueError:
        raise Refusal.bad_request() from None


def check_origin(origin: str) -> None:
    """Check that an origin is one that a browser sends.

    Raises:
        ValueError: It is not; the message says what to write.
    """
    scheme, separator, rest = origin.rstrip("/").partition("://")
    host = rest.partition("/")[0].partition("?")[0].partition("#")[0].rpartition("@")[2]
    if not separator:
        problem = "lacks http:// or https://"
    elif "*" in origin:
        problem = "has a wildcard, which matches nothing; list each origin, or use admit="
    elif not rest or any(letter.isspace() or letter == "," for letter in origin):
        problem = "is not an origin; give each of them as a string of its own"
    elif host != rest:
        problem = f'is not only a scheme and a host; write "{scheme}://{host}"'
    elif (scheme.lower(), host.rpartition(":")[2]) in _DEFAULT_PORTS:
        problem = f'has a port that browsers leave out; write "{origin.rpartition(":")[0]}"'
    else:
        return
    raise ValueError(f'socketio(origins=...): "{origin}" {problem}')


class Origins:
    """The web pages that may connect, by their origins.

    Browsers send the cookies of this server with a websocket that a page of any other origin opens
    (cross-site websocket hijacking), and CORS does not stop them.

    Args:
        allowed: Origins such as ``"https://app.example"``. None allows pages of this server, and
            websockets of all others that come without cookies; ``"*"`` also lets the others poll.

    Raises:
        TypeError: It is neither ``"*"`` nor a collection of strings.
        ValueError: An origin is not one that a browser sends, so it would match nothing.
    """

    def __init__(self, allowed: Collection[str] | None) -> None:
        if allowed is None or allowed == "*":
            self._allowed: frozenset[str] | None = frozenset() if allowed is None else None
        elif (
            isinstance(allowed, str)
            or not isinstance(allowed, Collection)
            or not all(isinstance(origin, str) for origin in allowed)
        ):
            raise TypeError(
                f'socketio(origins={allowed!r}): give a list, such as ["https://app.example"],'
                ' or "*" for all'
            )
        else:
            for origin in allowed:
                if origin == "*":
                    raise ValueError('socketio(origins=["*"]): write origins="*"')
                check_origin(origin)
            self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)
        self._is_default = allowed is None
        self._reported: set[str] = set()

    def report(self, headers: Mapping[str, str]) -> None:
        """Log once for each origin that its pages cannot poll, since their browser refuses it.

        The browser tells the page nothing, and this server sees a request like any other.
        """
        origin = headers.get("origin")
        if origin is None or (self._allowed is None and not self._is_default):
            return
        is_own = origin.partition("://")[2].lower() == headers.get("host", "").lower()
        if is_own or origin.lower() in (self._allowed or ()):
            return
        # Strangers choose what they send as their origin: neither its length nor their number may
        # fill the log or the memory.
        origin = origin[:MAX_ORIGIN_LENGTH]
        if origin not in self._reported and len(self._reported) < MAX_REPORTED_ORIGINS:
            self._reported.add(origin)
            _log.warning(
                "a page of %r polls, but its browser does not let it read the responses;"
                " socketio(origins=[...]) allows it",
                origin,
            )

    def admit_websocket(self, headers: Mapping[str, str]) -> bool:
        """Tell whether a websocket with these headers may be opened."""
        origin = headers.get("origin")
        if origin is None:
            return True  # without the header it is no browser
        if origin.partition("://")[2].lower() == headers.get("host", "").lower():
            return True
        if self._is_default or self._allowed is None:
            return "cookie" not in headers
        return origin.lower() in self._allowed

    def cors_headers(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """Return the headers by which a page of another origin may read a response."""
        if self._is_default:
            return []
        if self._allowed is None:  # without credentials: any page could use those of its visitor
            return [(b"access-control-allow-origin", b"*")]
        result = [(b"vary", b"Origin")]
        origin = headers.get("origin")
        if origin is not None and origin.lower() in self._allowed:
            result += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-allow-credentials", b"true"),
            ]
        return result

    def is_preflight(self, method: str, headers: Mapping[str, str]) -> bool:
        """Tell whether a request only asks which requests may follow."""
        return (
            method == "OPTIONS"
            and not self._is_default
            and "access-control-request-method" in headers
        )
