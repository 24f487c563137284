"""The frames that wait until their client reads.

A client that does not read its events is disconnected. The answers of its calls count apart: it
asked for them, and many large ones in a row say nothing about how it reads.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from alula._wire import MESSAGE, Frame, PacketType

__all__ = ["Backlog", "BacklogLimits"]

_ANSWERS: Final = (f"{MESSAGE}{PacketType.ACK:d}", f"{MESSAGE}{PacketType.BINARY_ACK:d}")
_FRAME_BYTES: Final = 64  # what a short answer takes at least


@dataclass
class BacklogLimits:
    """What may wait for clients.

    Attributes:
        events: How many frames may wait for a client, besides answers.
        event_bytes: How many bytes they may have together, before the last one.
        answer_bytes: How many bytes of answers may wait for a client.
        all_answer_bytes: For all clients; beyond it, each has ``event_bytes``.
        waiting: How many bytes of answers wait now.
    """

    events: int
    event_bytes: int
    answer_bytes: int = 16 * 1024 * 1024
    all_answer_bytes: int = 256 * 1024 * 1024
    waiting: int = 0


class Backlog:
    """The frames that wait for one client.

    Args:
        limits: How many may wait.
    """

    __slots__ = ("_answer_bytes", "_event_bytes", "_events", "_frames", "_limits")

    def __init__(self, limits: BacklogLimits) -> None:
        self._limits = limits
        self._frames: deque[Frame] = deque()
        self._events = self._event_bytes = self._answer_bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, frame: Frame) -> bool:
        """Add a frame, unless there is no room; return whether there was."""
        limits, size = self._limits, self._answer_bytes
        # The bytes before it count: a frame that is long alone is no sign of a slow reader.
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
    # Binary data is nearly always that of an answer; events have little of it.
    return isinstance(frame, bytes) or frame.startswith(_ANSWERS)
