"""Calls that end at any moment, by whatever ends them: nothing is left, and the client works on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from tests.client.kinds import WAITING

from alula import errors
from alula.client import AbortController, Aborted

OPEN_FILES = Path("/proc/self/fd")
CALLS, AT_ONCE, LONG = 300, 20, 30.0
PATHS = ["ok", "ok", "missing", "half", "closed", "reset", "large", "stall"]
FAULTS = (errors.NotFound, errors.Unavailable, errors.BadGateway)
ENDS = {
    "limit": errors.Timeout,
    "signal": Aborted,
    "cancelled": asyncio.CancelledError,
    "limit around it": TimeoutError,
}


def open_files() -> int:
    return len(list(OPEN_FILES.iterdir()))


async def ended_by(how: str, service, seconds: float) -> None:
    """Call a service, and end that after a while."""
    loop, controller = asyncio.get_running_loop(), AbortController()
    limit = seconds if how == "limit" else LONG
    given = {"signal": controller.signal} if how == "signal" else {}
    call = loop.create_task(service.find(connection={"timeout": limit, **given}))
    if how == "limit around it":
        async with asyncio.timeout(seconds):
            await call
    elif how != "limit":
        timer = loop.call_later(seconds, controller.abort if given else call.cancel)
        try:
            await call
        finally:
            timer.cancel()
    await call


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted where /proc is")
@pytest.mark.parametrize("kind", WAITING, ids=str)
async def test_nothing_is_left_of_calls_that_end_at_any_moment(kind, faulty_url):
    chance, seen, free = random.Random(5), Counter(), asyncio.Semaphore(AT_ONCE)
    files, tasks = open_files(), asyncio.all_tasks()

    async def one(client) -> None:
        how, service = chance.choice(list(ENDS)), client.service(chance.choice(PATHS))
        async with free:
            try:
                await ended_by(how, service, chance.choice([0.0001, 0.001, 0.002, 0.005, 0.01]))
            except (ENDS[how], *FAULTS) as error:
                seen[type(error)] += 1

    async with kind.client(faulty_url, max_response_size=50_000) as client:
        await asyncio.gather(*(one(client) for _ in range(CALLS)))
        assert await client.service("ok").find() == {"id": 5}
    assert set(ENDS.values()) <= set(seen)
    for _ in range(1000):  # threads of calls that were given up take note of it on their own
        if open_files() <= files:
            break
        await asyncio.sleep(0.01)
    assert open_files() <= files
    assert asyncio.all_tasks() == tasks
