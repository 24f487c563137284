"""Thousands of calls, well and badly ended: nothing of them stays.

A release needs 10,000 calls of each kind of client; CI makes 3,000.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from pathlib import Path

import pytest
from tests.client.kinds import WAITING, Kind, settled

from alula import errors

OPEN_FILES = Path("/proc/self/fd")
ROUND, AT_ONCE = 200, 10
FAULTS = {
    "missing": errors.NotFound,
    "half": errors.Unavailable,
    "closed": errors.Unavailable,
    "reset": errors.Unavailable,
    "large": errors.BadGateway,
    "stall": errors.Timeout,
}
# Fewer than one for each call, and far fewer than one for each of those that fail: those are 90.
BLOCKS_THAT_COME_AND_GO, FILES_THAT_DO = 2_000, 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.untraced,
    pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted where /proc is"),
]


def counted():
    """Return how many files, threads, tasks and blocks of memory there are."""
    gc.collect()
    files = len(list(OPEN_FILES.iterdir()))
    return files, threading.active_count(), len(asyncio.all_tasks()), sys.getallocatedblocks()


async def until_as_at_first(at_first) -> None:
    """Wait until no more files, threads and tasks are there; some end a moment later."""
    async with asyncio.timeout(30):
        while any(now > then for now, then in zip(counted()[:3], at_first, strict=False)):  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(0.01)


async def some(kind: Kind, client) -> None:
    """Make calls that succeed, and one of each kind that fails."""
    ok = client.service("ok")
    if kind in WAITING:
        for _ in range(ROUND // AT_ONCE):
            await asyncio.gather(*(ok.find() for _ in range(AT_ONCE)))
    else:
        for _ in range(ROUND):
            ok.find()
    for path, error in FAULTS.items():
        with pytest.raises(error):
            await settled(client.service(path).find(connection={"timeout": LIMITS.get(path, 30)}))
    if kind in WAITING:
        call = asyncio.create_task(client.service("stall").find())
        await asyncio.sleep(0.002)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


LIMITS = {"stall": 0.01}


@pytest.mark.parametrize("calls", [3_000, pytest.param(10_000, marks=pytest.mark.release)])
async def test_nothing_grows(kind, calls, faulty_url):
    at_first = counted()
    async with kind.client(faulty_url, max_response_size=50_000) as client:
        for _ in range(3):  # what is made once
            await some(kind, client)
        before = counted()
        for _ in range(calls // ROUND):
            await some(kind, client)
        files, threads, tasks, blocks = (
            after - each for after, each in zip(counted(), before, strict=True)
        )
        assert files <= FILES_THAT_DO
        assert threads <= FILES_THAT_DO
        assert tasks <= 0
        assert blocks < BLOCKS_THAT_COME_AND_GO
    await until_as_at_first(at_first)
