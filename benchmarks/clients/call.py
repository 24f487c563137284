"""The clients of Python: ``python -m benchmarks.clients.call KIND URL PATH``."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import httpx2

from alula.client import create_client, create_sync_client, rest

Get = Callable[[], Awaitable[Any]]


async def alula(stack: AsyncExitStack, library: str, url: str, path: str) -> Get:
    """Return a call of Alula's client."""
    connection = getattr(rest(url), library)()
    client = await stack.enter_async_context(create_client().configure(connection))
    name, _, key = path.strip("/").rpartition("/")
    service = client.service(name)
    return lambda: service.get(key)


async def alula_blocking(stack: AsyncExitStack, library: str, url: str, path: str) -> Get:
    """Return a call of Alula's synchronous client."""
    connection = getattr(rest(url), library)()
    client = stack.enter_context(create_sync_client().configure(connection))
    name, _, key = path.strip("/").rpartition("/")
    service = client.service(name)

    async def get() -> Any:
        return service.get(key)

    return get


async def bare_aiohttp(stack: AsyncExitStack, _: str, url: str, path: str) -> Get:
    """Return a call as the documentation of aiohttp has it."""
    session = await stack.enter_async_context(aiohttp.ClientSession())

    async def get() -> Any:
        async with session.get(url + path) as answer:
            return await answer.json()

    return get


async def bare_httpx(stack: AsyncExitStack, _: str, url: str, path: str) -> Get:
    """Return a call as the documentation of httpx2 has it."""
    client = await stack.enter_async_context(httpx2.AsyncClient())

    async def get() -> Any:
        return (await client.get(url + path)).json()

    return get


async def bare_httpx_blocking(stack: AsyncExitStack, _: str, url: str, path: str) -> Get:
    """Return a blocking call of httpx2."""
    client = stack.enter_context(httpx2.Client())

    async def get() -> Any:
        return client.get(url + path).json()

    return get


KINDS = {
    "alula": alula,
    "alula-blocking": alula_blocking,
    "aiohttp": bare_aiohttp,
    "httpx2": bare_httpx,
    "httpx2-blocking": bare_httpx_blocking,
}


async def measure(get: Get, at_once: int, seconds: float) -> tuple[float, float]:
    """Return the calls per second and the p99 in milliseconds."""
    times: list[float] = []
    began = time.perf_counter()
    until = began + seconds

    async def again() -> None:
        now = time.perf_counter()
        while now < until:
            await get()
            before, now = now, time.perf_counter()
            times.append(now - before)

    await asyncio.gather(*(again() for _ in range(at_once)))
    rate = len(times) / (time.perf_counter() - began)
    return rate, sorted(times)[len(times) * 99 // 100] * 1000


async def main(kind: str, url: str, path: str) -> None:
    """Measure what standard input says, until it ends."""
    name, _, library = kind.partition(":")
    async with AsyncExitStack() as stack:
        get = await KINDS[name](stack, library, url, path)
        for line in sys.stdin:
            at_once, seconds = line.split()
            rate, p99 = await measure(get, int(at_once), float(seconds))
            print(rate, p99, flush=True)


asyncio.run(main(*sys.argv[1:]))
