"""The time limits of streams, for every transport that sends items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from math import inf
from typing import Any, Final, NamedTuple

from alula._item_stream import ItemStream
from alula.errors import Unavailable

__all__ = ["NO_LIMITS", "StreamLimits", "items_in_time", "run_in_time"]


class StreamLimits(NamedTuple):
    """Time limits of streams, in seconds; None for no limit.

    Attributes:
        heartbeat: The silence after which a comment is sent, so that proxies keep the connection
            open.
        timeout: The longest wait for the next item.
        duration: The longest duration of a whole stream.
    """

    heartbeat: float | None = 15.0
    timeout: float | None = 300.0
    duration: float | None = None

    def check(self, plugin: str) -> None:
        """Check that all limits are positive.

        Args:
            plugin: The plugin whose options they are, for the message.

        Raises:
            ValueError: A limit is not positive.
        """
        for name, value in self._asdict().items():
            if value is not None and not value > 0:
                raise ValueError(
                    f"{plugin}(stream_{name}={value!r}): give a number of seconds above 0, or None"
                )


NO_LIMITS: Final = StreamLimits(None, None, None)


async def run_in_time(call: Awaitable[None], limits: StreamLimits) -> None:
    """Run a call that streams, which lasts until the first item.

    Raises:
        Unavailable: The first item takes too long.
    """
    limit = asyncio.timeout(limits.timeout)
    try:
        async with limit:
            await call
    except TimeoutError as error:
        if not limit.expired():  # the method has raised it
            raise
        raise _no_item(limits) from error


async def items_in_time(
    stream: ItemStream, limits: StreamLimits, comment: bytes | None = None
) -> AsyncGenerator[Any, None]:
    """Yield the items of a stream, and a comment after each silence.

    The time that the caller takes for an item does not count for the next one.

    Args:
        stream: The stream.
        limits: Its limits.
        comment: What to yield after a silence, None for nothing.

    Raises:
        Unavailable: The next item, or the whole stream, takes too long.
    """
    now = asyncio.get_running_loop().time
    heartbeat = None if comment is None else limits.heartbeat
    begun = last_item = last_part = now()
    while True:
        ends = {
            "silence": last_part + (heartbeat or inf),
            "item": last_item + (limits.timeout or inf),
            "stream": begun + (limits.duration or inf),
        }
        first = min(ends, key=ends.__getitem__)
        seconds = ends[first] - now()
        if await stream.wait(None if seconds == inf else seconds):
            item = await anext(stream, None)
            if item is None:
                return
            yield item
            last_item = last_part = now()
        elif first == "item":
            raise _no_item(limits)
        elif first == "stream":
            raise Unavailable(f"The stream took longer than {limits.duration:g} seconds")
        else:
            yield comment or b""
            last_part = now()


def _no_item(limits: StreamLimits) -> Unavailable:
    return Unavailable(f"The stream had no item for {limits.timeout:g} seconds")
