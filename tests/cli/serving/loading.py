"""Clients that keep a server busy and count the responses to their requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from tests.waiting import eventually

SECONDS_TO_ANSWER = 60


class Load:
    """Clients that send one request after another, on connections that they keep or do not.

    Attributes:
        answers: How often each status was answered.
        lost: Requests that were sent and got no answer, by error.
        refused: Connections that were refused.
        bodies: How often each body was answered.
    """

    def __init__(self, port: int, path: str, *, kept: int = 6, new: int = 4) -> None:
        self.answers: Counter[int] = Counter()
        self.bodies: Counter[bytes] = Counter()
        self.lost: Counter[str] = Counter()
        self.refused = 0
        self._port = port
        self._request = f"GET {path} HTTP/1.1\r\nHost: here\r\n%s\r\n"
        self._over = asyncio.Event()
        self._clients = [
            *(asyncio.create_task(self._run(keeps=True)) for _ in range(kept)),
            *(asyncio.create_task(self._run(keeps=False)) for _ in range(new)),
        ]

    @property
    def count(self) -> int:
        return self.answers.total()

    async def reach(self, count: int) -> None:
        """Wait for so many answers more."""
        wanted = self.count + count
        await eventually(lambda: self.count >= wanted)

    async def end(self) -> None:
        """Let the clients end after the requests that they have sent, and wait for them."""
        self._over.set()
        await asyncio.gather(*self._clients)

    async def _run(self, *, keeps: bool) -> None:
        while not self._over.is_set():
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except ConnectionError:  # refused, or reset before it was a connection
                self.refused += 1
                await asyncio.sleep(0.02)
                continue
            try:
                await self._use(reader, writer, keeps)
            except (OSError, EOFError) as error:
                self.lost[repr(error)] += 1
            finally:
                writer.close()

    async def _use(self, reader: Any, writer: Any, keeps: bool) -> None:
        more = "" if keeps else "Connection: close\r\n"
        while not self._over.is_set():
            writer.write((self._request % more).encode())
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.bodies[await reader.readexactly(length)] += 1
            self.answers[int(head.split()[1])] += 1
            if not keeps or b"connection: close" in head.lower():
                return
            await asyncio.sleep(0)
