"""Keeps an outage from filling the log: a line that repeats is written once in some seconds."""

from __future__ import annotations

from time import monotonic
from typing import Final

__all__ = ["RepeatLimit"]

_MAX_LINES: Final = 100
"""How many different lines are remembered. The texts of errors may vary without an end."""


class RepeatLimit:
    """Decides which repetitions of a line are written.

    Examples:
        >>> limit = RepeatLimit(seconds=10)
        >>> limit.suffix("the database is away"), limit.suffix("the database is away")
        ('', None)

    Args:
        seconds: How long repetitions of a line are left out.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        # By line: when it was written, and how often it was left out since then.
        self._lines: dict[str, tuple[float, int]] = {}

    def suffix(self, line: str) -> str | None:
        """Return what to append to a line, or None if it must be left out.

        Args:
            line: What the repetitions have in common.
        """
        now = monotonic()
        written, left_out = self._lines.get(line, (now - self._seconds, 0))
        if now - written < self._seconds:
            self._lines[line] = written, left_out + 1
            return None
        self._lines.pop(line, None)  # so that it is the newest now
        if len(self._lines) >= _MAX_LINES:
            del self._lines[next(iter(self._lines))]
        self._lines[line] = now, 0
        return f" ({left_out} more of these since the last line)" if left_out else ""
