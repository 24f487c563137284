"""What one connection may ask of the server, and how slow its client may be.

The web application holds the number of headers on any server. The rest is held by
`alula.express._uvicorn_protocol`, on the servers of `listen` and `alula serve`.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from alula.errors import FrameworkError

__all__ = [
    "KEEP_ALIVE_SECONDS",
    "MAX_HEADERS",
    "MAX_HEAD_BYTES",
    "ConnectionLimits",
    "StallTimeout",
    "head_too_large",
]

MAX_HEADERS: Final = 500
"""Header lines that a request may have."""

MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes that the request line and the headers may have together.

So many may also come between or behind the chunks of a body: trailers and chunk extensions. The
parser keeps a trailer whole, and copies it with each piece.
"""

KEEP_ALIVE_SECONDS: Final = 75
"""How long an idle connection is kept.

Longer than the 60 seconds of nginx (``keepalive_timeout`` of an upstream): of two who may close an
idle connection, the proxy has to be first. Otherwise it sends a request on a connection that is
being closed, and answers a 502.
"""


@dataclasses.dataclass(frozen=True)
class ConnectionLimits:
    """How slow a client may be before its connection is closed.

    Attributes:
        read_timeout: Seconds in which the head of a request must be complete, and in which at
            least ``read_timeout * min_rate`` bytes of a body must come, or its end.
        write_timeout: Seconds in which a client must read at least ``write_timeout * min_rate``
            bytes of the responses that wait for it, or all of them.
        min_rate: Bytes per second, on average over these times.

    Raises:
        ValueError: One of them is not a positive number.
    """

    read_timeout: float = 20
    write_timeout: float = 20
    min_rate: float = 500

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"{name} is {value!r}; it must be a number greater than 0")


def head_too_large(message: str) -> FrameworkError:
    """Return the 431 for a head that is over a limit."""
    return FrameworkError(
        message,
        name="RequestHeaderFieldsTooLarge",
        code=431,
        class_name="request-header-fields-too-large",
    )


class StallTimeout:
    """Tells when something has made too little progress for too long.

    Args:
        seconds: How long that may be.
        enough: The progress within this time that begins it anew, in bytes.
    """

    __slots__ = ("_count", "_enough", "_seconds", "_since", "_what")

    def __init__(self, seconds: float, enough: float) -> None:
        self._seconds = seconds
        self._enough = max(1, enough)
        self._what: object = None
        self._count = 0
        self._since = 0.0

    def has_passed(self, what: object, count: int, now: float) -> bool:
        """Note how far it has come, and tell whether that was too slow.

        Args:
            what: What is waited for, compared by identity; None where nothing is.
            count: Bytes of it so far.
            now: The time.
        """
        if what is None or what is not self._what or count - self._count >= self._enough:
            self._what, self._count, self._since = what, count, now
            return False
        return now - self._since >= self._seconds
