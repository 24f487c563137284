"""How long an operation may take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Literal, TypeAlias, TypeVar

import pymongo

from alula._context import Params
from alula.errors import Timeout

__all__ = [
    "MAX_TIME_MS",
    "MaxTime",
    "as_option",
    "in_time",
    "limited",
    "read_max_time",
    "seconds_of",
]

_T = TypeVar("_T")

MaxTime: TypeAlias = int | Literal[False] | None
"""A time limit in milliseconds, False for no limit, None where nothing is said."""

MAX_TIME_MS: Final = 10_000
"""How long an operation may take where nobody says otherwise, in milliseconds."""

_UNLIMITED: Final[AbstractContextManager[Any]] = nullcontext()


def read_max_time(value: Any, where: str) -> float | None:
    """Return the seconds that an option allows, None for no limit.

    Args:
        value: Milliseconds from 1 on, False for no limit, None for `MAX_TIME_MS`.
        where: What to call it in an error.

    Raises:
        ValueError: It is something else.
    """
    if value is False:
        return None
    if value is None:
        value = MAX_TIME_MS
    if type(value) is not int or value < 1:
        raise ValueError(
            f"{where} is {value!r}; give whole milliseconds from 1 on, or False for no limit"
        )
    return value / 1000


def seconds_of(params: Params, otherwise: float | None) -> float | None:
    """Return how many seconds an operation of a call may take, None for no limit.

    Args:
        params: What ``docdb`` or ``adapter`` say in them goes first.
        otherwise: What holds where they say nothing.

    Raises:
        ValueError: What they say is not in order.
    """
    if params.docdb is None and params.adapter is None:
        return otherwise
    for name, given in (("docdb", params.docdb), ("adapter", params.adapter)):
        value = given.get("max_time_ms") if given else None
        if value is not None:
            if value is False and name == "docdb":  # its options go to the driver as they are
                raise ValueError(
                    "params.docdb: 'max_time_ms' is False; for no limit say"
                    ' adapter={"max_time_ms": False}'
                )
            return read_max_time(value, f"params.{name}: 'max_time_ms'")
    return otherwise


def limited(seconds: float | None) -> AbstractContextManager[Any]:
    """Bound the driver's operations inside: on the server, on the way, and while they wait.

    Args:
        seconds: None leaves them to what the client is set up with.
    """
    return _UNLIMITED if seconds is None else pymongo.timeout(seconds)


def as_option(name: str, seconds: float | None) -> dict[str, int]:
    """Return a time limit as an option of the driver that has a name; nothing for no limit."""
    return {} if seconds is None else {name: round(seconds * 1000)}


async def in_time(waited: Awaitable[_T], seconds: float | None) -> _T:
    """Return what something resolves to that is no operation of the driver.

    Args:
        waited: It is cancelled where it takes too long; behind a shield it goes on.
        seconds: How long it may take, None for no limit.

    Raises:
        Timeout: It took longer.
        Exception: What it raises.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await waited
    except TimeoutError as error:
        if limit.expired():
            raise Timeout("The database's collection was not there in time") from error
        raise
