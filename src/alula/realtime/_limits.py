"""Limits of clients: calls under way, waiting frames, work of queries, lines in the log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from alula._shares import Shares, network_of
from alula._wire import MESSAGE, Frame, PacketType
from alula.errors import TooManyRequests

__all__ = [
    "Backlog",
    "BacklogLimits",
    "CallLimits",
    "CallsUnderWay",
    "LogLimit",
    "MatchLimit",
    "MatchLimits",
]

MIN_CALL_BYTES: Final = 4096
"""The size of the smallest call, including its task and its params."""

STEPS_A_SECOND: Final = 100_000
"""Steps that a client may use per second. Each takes about 0.25 µs, together 2.5 % of the time."""

MAX_STEPS: Final = 1_000_000
"""Steps that it may use at once, after some seconds without any."""

MAX_CLIENTS: Final = 10_000

LOG_LINES: Final = 20
"""Lines that a client may cause in the log at once. After that, one per second."""

LOG_LINES_OF_ALL: Final = 1_000
"""Lines that all clients may cause at once. After that, `LOG_LINES` per second."""

MAX_QUEUED: Final = 100
MAX_QUEUED_BYTES: Final = 256 * 1024
"""How many events may wait for a client. If there are more, its lists and streams wait until it
reads again: they can, other events cannot."""

_ANSWERS: Final = (f"{MESSAGE}{PacketType.ACK:d}", f"{MESSAGE}{PacketType.BINARY_ACK:d}")
_FRAME_BYTES: Final = 64  # the memory of the shortest answer


# -- calls under way -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallLimits:
    """How many calls one connection may have under way.

    Attributes:
        max_calls: How many at the same time.
        max_bytes: How many bytes they may have together.
        max_rate: How many may begin per second on average, None for any number.
    """

    max_calls: int
    max_bytes: int
    max_rate: float | None


class CallsUnderWay:
    """The calls of one client that have not ended. They also count after the client has left.

    Attachments count before their call is complete.

    Args:
        limits: How many calls there may be, and how many bytes they may have.
        shares: The bytes of all clients.
        address: The address of the client, None if it is not known.
        now: Returns the time in seconds.

    Attributes:
        held: The bytes of attachments whose call is not complete.
    """

    __slots__ = (
        "_address",
        "_bytes",
        "_count",
        "_limits",
        "_now",
        "_shares",
        "_tokens",
        "_tokens_at",
        "held",
    )

    def __init__(
        self,
        limits: CallLimits,
        shares: Shares,
        address: str | None,
        now: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._shares = shares
        self._address = address
        self._now = now
        self._count = self._bytes = self.held = 0
        self._tokens = limits.max_rate or 0.0
        self._tokens_at = 0.0

    def check(self, size: int, *, is_rated: bool = True) -> int:
        """Check whether another call may begin; return its size for `begin` and `end`.

        Args:
            size: How many bytes arrived for it.
            is_rated: Whether it counts for the calls per second.

        Raises:
            TooManyRequests: A limit is reached.
        """
        limits = self._limits
        if self._count >= limits.max_calls:
            raise TooManyRequests(f"More than {limits.max_calls} calls are under way")
        if size < MIN_CALL_BYTES:  # noqa: PLR1730  # `max` takes 400 instructions more
            size = MIN_CALL_BYTES
        if self._bytes + size > limits.max_bytes:
            raise TooManyRequests(f"The calls under way have over {limits.max_bytes} bytes")
        if is_rated and limits.max_rate is not None:
            self._check_rate(limits.max_rate)
        if not self._shares.has_room(self._address, size):
            raise TooManyRequests("The calls under way of all clients have too many bytes")
        return size

    def begin(self, size: int) -> None:
        """Count a call, right after its `check`."""
        self._shares.take(self._address, size)
        self._count += 1
        self._bytes += size

    def _check_rate(self, rate: float) -> None:
        now = self._now()
        passed, self._tokens_at = now - self._tokens_at, now
        self._tokens = min(max(rate, 1.0), self._tokens + passed * rate)
        if self._tokens < 1:
            raise TooManyRequests(f"More than {rate:g} calls a second")
        self._tokens -= 1

    def end(self, size: int) -> None:
        """Stop counting a call, because it has ended."""
        self._shares.give_back(self._address, size)
        self._count -= 1
        self._bytes -= size

    def hold(self, size: int) -> bool:
        """Count attachments of a call that is not complete; return False if they are too many."""
        if self._bytes + size > self._limits.max_bytes:
            return False
        if not self._shares.take(self._address, size):
            return False
        self._bytes += size
        self.held += size
        return True

    def release(self) -> int:
        """Stop counting attachments of a complete or dropped call; return their size."""
        held, self.held = self.held, 0
        self._shares.give_back(self._address, held)
        self._bytes -= held
        return held


# -- frames that wait ------------------------------------------------------------------------------


@dataclass
class BacklogLimits:
    """How many frames may wait for clients.

    Attributes:
        events: How many frames may wait for one client, without answers.
        event_bytes: How many bytes they may have together; the last one is not counted.
        answer_bytes: How many bytes of answers may wait for one client.
        all_answer_bytes: How many bytes of answers may wait for all clients. If there are more,
            only ``event_bytes`` of answers may wait for each.
        waiting: How many bytes of answers currently wait.
    """

    events: int
    event_bytes: int
    answer_bytes: int = 16 * 1024 * 1024
    all_answer_bytes: int = 256 * 1024 * 1024
    waiting: int = 0


class Backlog:
    """The frames that wait for one client.

    Args:
        limits: How many frames may wait.
    """

    __slots__ = ("_answer_bytes", "_event_bytes", "_events", "_frames", "_limits")

    def __init__(self, limits: BacklogLimits) -> None:
        self._limits = limits
        self._frames: deque[Frame] = deque()
        self._events = self._event_bytes = self._answer_bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def has_room(self) -> bool:
        """Whether few frames wait, so that more of what can wait may follow."""
        waiting = self._event_bytes + self._answer_bytes
        return self._events < MAX_QUEUED and waiting < MAX_QUEUED_BYTES

    def add(self, frame: Frame) -> bool:
        """Add a frame if there is room; return whether there was."""
        limits, size = self._limits, self._answer_bytes
        # Only earlier frames count: one long frame does not mean that the client reads slowly.
        if not _is_answer(frame):
            is_full = self._event_bytes > limits.event_bytes or self._events >= limits.events
        elif size > limits.answer_bytes or limits.waiting > limits.all_answer_bytes:
            is_full = size > limits.event_bytes
        else:
            is_full = False
        if is_full:
            return False
        self._frames.append(frame)
        self._count(frame, 1)
        return True

    def pop(self) -> Frame:
        """Take the first frame."""
        frame = self._frames.popleft()
        self._count(frame, -1)
        return frame

    def take_all(self) -> list[Frame]:
        """Take all frames."""
        frames = [*self._frames]
        self._frames.clear()
        self._limits.waiting -= self._answer_bytes
        self._events = self._event_bytes = self._answer_bytes = 0
        return frames

    def _count(self, frame: Frame, sign: int) -> None:
        if _is_answer(frame):
            size = sign * (len(frame) + _FRAME_BYTES)
            self._answer_bytes += size
            self._limits.waiting += size
        else:
            self._events += sign
            self._event_bytes += sign * len(frame)


def _is_answer(frame: Frame) -> bool:
    # Attachments nearly always belong to answers.
    return isinstance(frame, bytes) or frame.startswith(_ANSWERS)


# -- work of queries -------------------------------------------------------------------------------


class MatchLimit:
    """How much work the queries of all streams of one client may take.

    A query with few conditions takes no steps, unless records have long lists.

    Args:
        now: Returns the time in seconds.
    """

    __slots__ = ("_left", "_now", "_since")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left: float = MAX_STEPS
        self._since = now()

    def spend(self, steps: float) -> None:
        """Count steps.

        Raises:
            TooManyRequests: The client has used too many steps.
        """
        now = self._now()
        self._left = min(MAX_STEPS, self._left + (now - self._since) * STEPS_A_SECOND)
        self._since = now
        if self._left <= 0:
            raise TooManyRequests(
                "The query of the stream takes too much work for these events; send fewer"
                " conditions, or open fewer streams with them"
            )
        self._left -= steps


class MatchLimits:
    """The limits of all clients. A client that opens a new stream keeps its limit."""

    def __init__(self) -> None:
        self._limits: dict[Hashable, MatchLimit] = {}

    def of_client(self, client: Hashable | None) -> MatchLimit:
        """Return the limit of a client. Without a key, each stream has its own limit."""
        if client is None:
            return MatchLimit()
        limit = self._limits.pop(client, None) or MatchLimit()
        self._limits[client] = limit  # at the end, as the first one is removed
        if len(self._limits) > MAX_CLIENTS:
            del self._limits[next(iter(self._limits))]
        return limit


# -- lines in the log ------------------------------------------------------------------------------


@dataclass
class _Lines:
    """The lines that a client may still cause in the log.

    Attributes:
        left: How many lines; a fraction grows to the next line.
        since: The time of that number.
        omitted: How many lines were left out since the last one.
    """

    left: float
    since: float
    omitted: int = 0

    def take(self, now: float, most: int, rate: float) -> bool:
        self.left = min(most, self.left + (now - self.since) * rate)
        self.since = now
        if self.left < 1:
            self.omitted += 1
            return False
        self.left -= 1
        return True


class LogLimit:
    """How many lines clients may cause in the log.

    A socket can send tens of thousands of calls per second, and each failed call is a line.

    Args:
        now: Returns the time in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._of_all = _Lines(LOG_LINES_OF_ALL, now())
        self._of_client: dict[str, _Lines] = {}

    def take(self, address: str | None) -> int | None:
        """Count a line of a client.

        Args:
            address: The address of the client, None if it is not known.

        Returns:
            How many lines were left out before this one. None if this one is left out, too.
        """
        now, client = self._now(), network_of(address)
        lines = self._of_all
        if client is not None:
            known = self._of_client.pop(client, None)
            lines = self._of_client[client] = known or _Lines(LOG_LINES, now)  # at the end
            if len(self._of_client) > MAX_CLIENTS:
                del self._of_client[next(iter(self._of_client))]
            if not lines.take(now, LOG_LINES, 1):
                return None
        if not self._of_all.take(now, LOG_LINES_OF_ALL, LOG_LINES):
            return None
        omitted, lines.omitted = lines.omitted, 0
        return omitted
