"""Waits for what happens. A pause of some milliseconds is over at once where a machine is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS = 60


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.002)


async def settle(turns: int = 50) -> None:
    """Let all that can go on in this event loop do so."""
    for _ in range(turns):
        await asyncio.sleep(0)
