"""What the sockets of a transport may do."""

from __future__ import annotations

from dataclasses import dataclass

from alula.realtime._recovery import RecoverOptions

__all__ = ["SocketOptions"]


@dataclass(frozen=True)
class SocketOptions:
    """What sockets may do.

    Attributes:
        join_timeout: Seconds that a session may be open without a connection.
        max_calls: How many calls of one connection may be under way at once.
        max_call_rate: How many may begin in a second on average, None for any number.
        recover: How long connections sleep, None for not at all.
    """

    join_timeout: float
    max_calls: int
    max_call_rate: float | None
    recover: RecoverOptions | None
