"""Applications alive: their ASGI lifespan, and servers on free ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

SECONDS_TO_START = 30
SECONDS_TO_ANSWER = 30


class Lifespan:
    """The lifespan of an application, run in a task of its own as servers do.

    Attributes:
        messages: What the application has sent.
        state: What it has left for its requests.
    """

    def __init__(self, app: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.state: dict[str, Any] = {}
        self._asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answered: asyncio.Queue[None] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self.state}
        self.task = asyncio.create_task(app(scope, self._asked.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        await self._answered.put(None)

    async def ask(self, stage: str) -> dict[str, Any]:
        """Send ``startup`` or ``shutdown``, and return what the application answers."""
        await self._asked.put({"type": f"lifespan.{stage}"})
        await asyncio.wait_for(self._answered.get(), SECONDS_TO_START)
        return self.messages[-1]


@asynccontextmanager
async def living(app: Any) -> AsyncIterator[Lifespan]:
    """Start an application by its lifespan, and stop it at the end."""
    lifespan = Lifespan(app)
    assert await lifespan.ask("startup") == {"type": "lifespan.startup.complete"}
    try:
        yield lifespan
    finally:
        assert await lifespan.ask("shutdown") == {"type": "lifespan.shutdown.complete"}
        await lifespan.task


@asynccontextmanager
async def client_of(server: Any, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield a client whose paths are those of a server."""
    given = {"timeout": SECONDS_TO_ANSWER, **options}
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, **given) as client:
        yield client


async def until_connections(server: Any, count: int) -> None:
    """Wait until a server has so many connections."""
    while len(server._http_server.state.connections) != count:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.01)
