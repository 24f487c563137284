"""How a service offers live lists."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LiveOptions"]


@dataclass(frozen=True)
class LiveOptions:
    """What `ServiceHandle.live` was given.

    Attributes:
        depends_on: Paths of services whose changes change what `find` returns.
        recheck: Seconds after which each list is read again, None for never.
        max_rows: How many rows a list may have.
        pause: Seconds between two reads of one list.
    """

    depends_on: tuple[str, ...] = ()
    recheck: float | None = None
    max_rows: int = 1_000
    pause: float = 0.05
