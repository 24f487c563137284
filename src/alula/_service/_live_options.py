"""How a service offers live lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["LiveOptions", "UsersOf"]

UsersOf: TypeAlias = Callable[[Mapping[str, Any]], Iterable[object]]
"""Returns the ids of the users whose lists a record may change."""


@dataclass(frozen=True)
class LiveOptions:
    """What `ServiceHandle.live` was given.

    Attributes:
        depends_on: Paths of services whose changes change what `find` returns.
        users_of: Which lists a new or removed record of these services concerns, by path; a path
            that is missing concerns all.
        recheck: Seconds after which each list is read again, None for never.
        max_rows: How many rows a list may have.
        pause: Seconds between two reads of one list.
    """

    depends_on: tuple[str, ...] = ()
    recheck: float | None = None
    max_rows: int = 1_000
    pause: float = 0.05
    users_of: Mapping[str, UsersOf] = field(default_factory=dict[str, UsersOf])
