"""The handshake of a client, and the origins from which web pages may connect."""

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
        auth: The option ``auth`` of the client. An empty dict in ``admit``, which runs earlier.
        ip: The address of the client, None if unknown.
    """

    query: dict[str, str]
    headers: Mapping[str, str]
    ip: str | None
    auth: dict[str, Any] = field(default_factory=dict[str, Any])


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of an ASGI scope. Headers that were sent several times are joined."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        separator = "; " if name == "cookie" else ", "
        headers[name] = f"{headers[name]}{separator}{value}" if name in headers else value
    return headers


def read_query(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the query of an ASGI scope, with the last value of each name.

    Raises:
        Refusal: It has too many fields.
    """
    text = scope.get("query_string", b"").decode("latin-1")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS))
    except ValueError:
        raise Refusal.bad_request() from None


def check_origin(origin: str) -> None:
    """Check that an origin has the form that browsers send.

    Raises:
        ValueError: It has another form; the message says what to write.
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
            websockets without cookies of all other pages. ``"*"`` allows these to poll, too.

    Raises:
        TypeError: It is neither ``"*"`` nor a collection of strings.
        ValueError: An origin has a form that browsers do not send, so it would match nothing.
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
        """Log once for each origin that its pages cannot poll, because browsers prevent it.

        The page is not told why, and to this server the requests look like any others.
        """
        origin = headers.get("origin")
        if origin is None or (self._allowed is None and not self._is_default):
            return
        is_own = origin.partition("://")[2].lower() == headers.get("host", "").lower()
        if is_own or origin.lower() in (self._allowed or ()):
            return
        # Anybody can send any origin: long or many ones must not fill the log or the memory.
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
            return True  # only browsers send the header
        if origin.partition("://")[2].lower() == headers.get("host", "").lower():
            return True
        if self._is_default or self._allowed is None:
            return "cookie" not in headers
        return origin.lower() in self._allowed

    def cors_headers(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """Return the headers that let a page of another origin read a response."""
        if self._is_default:
            return []
        if self._allowed is None:  # without credentials, or any page could use its visitor's
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
        """Tell whether a request only asks which requests are allowed."""
        return (
            method == "OPTIONS"
            and not self._is_default
            and "access-control-request-method" in headers
        )
