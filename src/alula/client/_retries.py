"""Which failed requests are sent again, and after how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from alula.errors import FrameworkError, Unavailable
from alula.types import is_mapping

__all__ = ["NO_RETRIES", "Reply", "Retries", "backoff", "read_retries"]

_TRANSIENT_STATUSES: Final = frozenset({429, 502, 503})
_FIRST_DELAY: Final = 0.1  # seconds
_LONGEST_DELAY: Final = 5.0  # seconds


class Reply(Protocol):
    """The parts of a response that decide about a retry."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        ...


def backoff(attempt: int) -> float:
    """Return the seconds to wait after a number of failed attempts, from 0: longer each time."""
    import random  # noqa: PLC0415  # only failures pay for its import

    # Clients that failed at the same moment must not all come back at the same moment.
    longest = min(_FIRST_DELAY * 2.0 ** min(attempt, 32), _LONGEST_DELAY)
    return longest * (0.5 + random.random() / 2)  # noqa: S311  # not a secret


@dataclass(frozen=True, slots=True)
class Retries:
    """The option ``retries`` of a connection.

    Attributes:
        attempts: How many times a call is tried again.
        deadline: Seconds from the start of a call after which it is not tried again.
    """

    attempts: int = 0
    deadline: float = 30.0

    def delay(
        self,
        error: FrameworkError,
        response: Reply | None,
        attempt: int,
        elapsed: float,
    ) -> float | None:
        """Return the seconds to wait before the next attempt of an idempotent request.

        Args:
            error: The error of the attempt.
            response: The response, None if there was none.
            attempt: How many attempts were made before it.
            elapsed: Seconds since the call began.

        Returns:
            None to give up.
        """
        if attempt >= self.attempts:
            return None
        wait: float | None = None
        if response is not None:
            if response.status not in _TRANSIENT_STATUSES:
                return None
            wait = _retry_after(response.headers)
        elif not isinstance(error, Unavailable):
            return None
        if wait is None:
            wait = backoff(attempt)
        return wait if elapsed + wait <= self.deadline else None


NO_RETRIES: Final = Retries()


def read_retries(value: object) -> Retries:
    """Read the option: a number of attempts, ``{"attempts": ..., "deadline": ...}`` or None.

    Raises:
        ValueError: The value is not valid.
    """
    if value is None:
        return NO_RETRIES
    given: dict[str, Any] = dict(value) if is_mapping(value) else {"attempts": value}
    attempts, deadline = given.pop("attempts", 0), given.pop("deadline", NO_RETRIES.deadline)
    if (
        given
        or type(attempts) is not int
        or attempts < 0
        or type(deadline) not in {int, float}
        or deadline <= 0
    ):
        raise ValueError(
            f"the option `retries` is {value!r}; give how often a call is tried again, such as 3,"
            ' or {"attempts": 3, "deadline": 30.0}'
        )
    return Retries(attempts, deadline)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in ``Retry-After`` (RFC 9110, 10.2.3), None without a valid value."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  # only failures pay for its import

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
