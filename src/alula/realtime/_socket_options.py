"""What the sockets of a transport may do, and a check for the numbers among options."""

from __future__ import annotations

from dataclasses import dataclass

from alula.realtime._recovery import RecoverOptions

__all__ = ["SocketOptions", "check_number"]


@dataclass(frozen=True)
class SocketOptions:
    """What sockets may do.

    Attributes:
        join_timeout: Seconds that a session may be open without a connection.
        max_calls: How many calls of one connection may be under way at once.
        max_call_bytes: How many bytes they may have together.
        max_call_rate: How many may begin in a second on average, None for any number.
        recover: How long connections sleep, None for not at all.
    """

    join_timeout: float
    max_calls: int
    max_call_bytes: int
    max_call_rate: float | None
    recover: RecoverOptions | None


def check_number(plugin: str, name: str, value: object) -> None:
    """Check an option that is a number greater than 0, or None for the default.

    Args:
        plugin: The name of the plugin, for the message.
        name: The name of the option.
        value: What was given.

    Raises:
        TypeError: It is no number.
        ValueError: It is not greater than 0.
    """
    if value is None:
        return
    if not isinstance(value, int | float):
        choice = "True, or a number of seconds" if name == "recover" else "a number"
        raise TypeError(f"{plugin}({name}={value!r}): give {choice}")
    if isinstance(value, bool) or not value > 0:  # not NaN, either
        raise ValueError(f"{plugin}({name}={value!r}): it must be greater than 0")
