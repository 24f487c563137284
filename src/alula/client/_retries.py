"""When a failed call is tried again, and after how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from alula.client._codec import Response
from alula.client._transport import REPEATABLE
from alula.errors import FrameworkError, Unavailable

__all__ = ["NO_RETRIES", "Retries", "read_retries"]

_PASSING: Final = frozenset({429, 502, 503})
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0


@dataclass(frozen=True, slots=True)
class Retries:
    """What the option ``retries`` says.

    Attributes:
        attempts: How often a call is tried again.
        deadline: Seconds after which nothing is tried again, from the beginning of the call.
    """

    attempts: int = 0
    deadline: float = 30.0

    def delay(
        self,
        verb: str,
        error: FrameworkError,
        response: Response | None,
        attempt: int,
        elapsed: float,
    ) -> float | None:
        """Return the seconds to wait before the next attempt, None where there is none.

        Args:
            verb: The HTTP method; only what may be repeated is.
            error: What the attempt ended in.
            response: What came back, None where nothing did.
            attempt: How many were made before it.
            elapsed: Seconds since the call began.
        """
        if attempt >= self.attempts or verb not in REPEATABLE or not _may_pass(error, response):
            return None
        wait = None if response is None else _asked_for(response.headers)
        if wait is None:
            wait = _pause(attempt)
        return wait if elapsed + wait <= self.deadline else None


NO_RETRIES: Final = Retries()


def read_retries(value: Any) -> Retries:
    """Return what the option says: how often, or ``{"attempts", "deadline"}``, or None.

    Raises:
        ValueError: It is none of these.
    """
    if value is None:
        return NO_RETRIES
    given = dict(value) if isinstance(value, Mapping) else {"attempts": value}
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


def _may_pass(error: FrameworkError, response: Response | None) -> bool:
    """Tell whether a failure may be over soon: a lost connection, a server that is busy."""
    if response is None:
        return isinstance(error, Unavailable)
    return response.status in _PASSING


def _pause(attempt: int) -> float:
    """Return a pause that grows, and that chance keeps apart from those of other clients."""
    import random  # noqa: PLC0415  # only failures pay its import

    longest = min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY)
    return longest * (0.5 + random.random() / 2)  # noqa: S311  # no secret


def _asked_for(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` asks for, None where it asks for nothing."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  # as above

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
