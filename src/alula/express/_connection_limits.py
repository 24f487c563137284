"""Limits of a connection: size of heads, number of headers, and how slow its client may be.

A slow head, a slow body and a response that the client does not read are bounded here
(`ConnectionLimits`). On any server, the web application checks the number of headers. The rest is
checked by `alula.express._http1`, on the servers of `listen` and `alula serve`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final, Protocol

from alula.errors import FrameworkError

__all__ = [
    "KEEP_ALIVE_SECONDS",
    "MAX_HEADERS",
    "MAX_HEAD_BYTES",
    "SECONDS_FOR_THE_REST",
    "SECONDS_OF_SILENCE",
    "ConnectionLimits",
    "StallTimeout",
    "UnreadResponses",
    "head_too_large",
]

MAX_HEADERS: Final = 500
"""Header lines that a request may have."""

MAX_HEAD_BYTES: Final = 64 * 1024
"""Bytes that the request line and the headers may have together.

Trailers and chunk extensions of a chunked body have the same limit. The parser keeps a trailer
whole, and copies it with each piece.
"""

KEEP_ALIVE_SECONDS: Final = 75
"""How long an idle connection is kept.

Longer than the 60 seconds of nginx (``keepalive_timeout`` of an upstream), because the proxy has to
close an idle connection before the server does. Otherwise it may send a request on a connection
that is being closed, and respond with a 502.
"""

SECONDS_FOR_THE_REST: Final = 10
"""How long a client may go on sending a body to which it has its last response already.

A close while it sends would reset the connection, and destroy the response (RFC 9112, 9.6).
"""

SECONDS_OF_SILENCE: Final = 1
"""After which it is over on TLS, where the client is not told that nothing follows.

A client may wait for the end of the connection, and send nothing meanwhile.
"""


@dataclasses.dataclass(frozen=True)
class ConnectionLimits:
    """How slow a client may be before its connection is closed.

    Attributes:
        read_timeout: Seconds in which the head of a request must be complete, and in which at
            least ``read_timeout * min_rate`` bytes of a body must arrive, or its end.
        write_timeout: Seconds in which a client must read at least ``write_timeout * min_rate``
            bytes of the responses that wait for it, or all of them.
        min_rate: Bytes per second, on average over these times.
        max_unread_bytes: Bytes of responses that may wait for clients to read them, over all
            connections of a server. Over it, the connection whose client has read nothing for
            longest is closed.

    Raises:
        ValueError: One of them is not a positive number.
    """

    read_timeout: float = 20
    write_timeout: float = 20
    min_rate: float = 500
    max_unread_bytes: float = 256 * 1024 * 1024

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
    """A timeout that starts anew whenever enough bytes have arrived.

    Args:
        seconds: The timeout.
        min_bytes: How many bytes start it anew.
    """

    __slots__ = ("_bytes", "_min_bytes", "_seconds", "_since", "_target")

    def __init__(self, seconds: float, min_bytes: float) -> None:
        self._seconds = seconds
        self._min_bytes = max(1, min_bytes)
        self._target: object = None
        self._bytes = 0
        self._since = 0.0

    def has_passed(self, target: object, count: int, now: float) -> bool:
        """Record the progress of a request or response, and tell whether it is too slow.

        Args:
            target: The request or response, compared by identity; None if none is pending.
            count: Bytes of it so far.
            now: The time of the event loop.
        """
        is_other = target is None or target is not self._target
        if is_other or count - self._bytes >= self._min_bytes:
            self._target, self._bytes, self._since = target, count, now
            return False
        return now - self._since >= self._seconds


class WaitingConnection(Protocol):
    """A connection whose client does not read."""

    @property
    def transport(self) -> asyncio.Transport:
        """What the response was written to."""
        ...


class UnreadResponses:
    """The bytes of responses that wait for their clients, over all connections of a server.

    A client can let some MB wait until `ConnectionLimits.write_timeout` ends its connection.
    Without a common bound, many of them could use up the memory.

    Args:
        max_bytes: How many there may be. A response that waits alone may be longer.
    """

    def __init__(self, max_bytes: float) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        # The first one has waited longest without progress.
        self._waiting: dict[WaitingConnection, int] = {}

    def wait(self, connection: WaitingConnection, size: int) -> None:
        """Note that a connection waits from now on, and close the first ones if that is too much.

        Args:
            connection: The connection; where it waits already, its client has read something.
            size: The bytes that wait.
        """
        self.end(connection)
        self._waiting[connection] = size
        self._total += size
        while self._total > self._max_bytes and len(self._waiting) > 1:
            longest = next(iter(self._waiting))
            self.end(longest)
            longest.transport.abort()

    def end(self, connection: WaitingConnection) -> None:
        """Note that a connection does not wait any more."""
        self._total -= self._waiting.pop(connection, 0)
