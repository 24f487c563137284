"""A network between clients and a server that can be cut in every way that networks are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

CHUNK = 64 * 1024
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class Network:
    """Passes TCP connections on to a server on this machine.

    Attributes:
        port: Where clients connect.
        passages: The connections that are passed on.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.passages: set[Passage] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._refuses = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Network:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.heal()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def drop(self) -> None:
        """Reset all connections; new ones get through."""
        for passage in tuple(self.passages):
            passage.reset()

    def stall(self) -> None:
        """Pass nothing on any more, and let new connections hang; `heal` goes on."""
        self._is_open.clear()

    def half_open(self, side: str) -> None:
        """Reset one side of all connections; the other one hears nothing, as of a dead router.

        Args:
            side: Which side is told: ``"client"`` or ``"server"``.
        """
        for passage in tuple(self.passages):
            passage.half_open(side)

    def refuse(self) -> None:
        """Close new connections at once."""
        self._refuses = True

    def heal(self) -> None:
        """Pass everything on again; forget what was half-open."""
        self._is_open.set()
        self._refuses = False
        for passage in tuple(self.passages):
            if passage.is_half_open:
                passage.reset()

    async def wait_until_open(self) -> None:
        """Wait while the network stalls."""
        await self._is_open.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            if self._refuses:
                return
            await self._is_open.wait()
            to_server = await asyncio.open_connection("127.0.0.1", self.target)
            passage = Passage(self, (reader, writer), to_server)
            self.passages.add(passage)
            try:
                await passage.run()
            finally:
                self.passages.discard(passage)
        except (OSError, asyncio.CancelledError):
            pass  # a worker that was killed; the end of the test
        finally:
            writer.close()
            self._tasks.discard(task)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Passage:
    """One connection, with its two sides."""

    def __init__(self, network: Network, client: Streams, server: Streams) -> None:
        self._network = network
        self._sides = {"client": client, "server": server}
        self._copying: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self.is_half_open = False

    async def run(self) -> None:
        """Copy in both directions until one side ends."""
        client, server = self._sides["client"], self._sides["server"]
        self._copying = [
            asyncio.create_task(self._copy(client[0], server[1])),
            asyncio.create_task(self._copy(server[0], client[1])),
        ]
        try:
            await self._ended.wait()
        finally:
            for task in self._copying:
                task.cancel()
            await asyncio.wait(self._copying)
            for _, writer in self._sides.values():
                writer.close()

    def reset(self) -> None:
        """End both sides at once; what was under way is lost."""
        for name in self._sides:
            self._reset(name)
        self._ended.set()

    def half_open(self, side: str) -> None:
        """End one side; the other one stays open, and hears nothing."""
        self.is_half_open = True
        for task in self._copying:
            task.cancel()
        self._reset(side)

    def _reset(self, side: str) -> None:
        transport = self._sides[side][1].transport
        sock = transport.get_extra_info("socket")
        if sock is not None and not transport.is_closing():
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                await self._network.wait_until_open()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        if not self.is_half_open:
            self._ended.set()
