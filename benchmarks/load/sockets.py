"""Keeps sockets busy: ``python -m benchmarks.load.sockets URL``, told by standard input what to do.

It speaks socket.io over websockets by picows, which costs less than any server that is measured.
Each line of input is a command, each line of output its figures:

``calls N SECONDS``
    N sockets call `create` of the service `items`, one call at a time each: calls, p99 in ms.
``events N SECONDS``
    One socket calls `create` of `feed` whenever all N sockets got the event before: events sent,
    p99 in ms from the call to the last socket.
``connect N``
    Opens connections until there are N, and leaves them open: N, and 0.
``wait SECONDS``
    Answers heartbeats: 0, and 0.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import orjson
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

DATA = {"text": "Hello to all who are here, from the one who writes this message", "room": "a"}
CALL = b'42%d["create","%b",' + orjson.dumps(DATA) + b",{}]"


class Socket(WSListener):  # type: ignore[misc]  # picows is compiled, its classes are untyped
    """One connection; counts the answers and events that it gets."""

    def __init__(self) -> None:
        self.joined = asyncio.get_running_loop().create_future()
        self.answered: Callable[[], None] = lambda: None
        self.heard: Callable[[], None] = lambda: None

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Take one packet."""
        packet: bytes = frame.get_payload_as_bytes()
        if packet.startswith(b"43"):
            if packet[packet.index(b"[") :].startswith(b"[{"):  # an error comes first
                raise SystemExit(f"bench: a call failed: {packet!r}")
            self.answered()
        elif packet.startswith(b"42"):
            self.heard()
        elif packet.startswith(b"2"):
            self.send(b"3")
        elif packet.startswith(b"40"):
            self.joined.set_result(None)
        elif packet.startswith(b"0"):
            self.send(b"40")
        else:
            raise SystemExit(f"bench: what is {packet!r}?")

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Fail a connection that ends before it was joined."""
        if not self.joined.done():
            self.joined.set_exception(ConnectionError("closed before it was joined"))

    def send(self, packet: bytes) -> None:
        """Send a packet."""
        self.transport.send(WSMsgType.TEXT, packet)


class Sockets:
    """All connections to one server."""

    def __init__(self, url: str) -> None:
        self.url = url.replace("http", "ws", 1) + "/socket.io/?EIO=4&transport=websocket"
        self.sockets: list[Socket] = []

    async def connect(self, number: int) -> tuple[int, float]:
        """Open connections, a hundred at once, until there are as many as asked for."""
        while (missing := number - len(self.sockets)) > 0:
            opened = await asyncio.gather(*(self._open() for _ in range(min(100, missing))))
            self.sockets += opened
        for socket in self.sockets[number:]:
            socket.transport.disconnect()
        del self.sockets[number:]
        return number, 0.0

    async def _open(self) -> Socket:
        _, socket = await ws_connect(Socket, self.url)
        await asyncio.wait_for(socket.joined, 30)
        return socket

    async def calls(self, number: int, seconds: float) -> tuple[int, float]:
        """Let every socket call again when its call is answered."""
        await self.connect(number)
        times: list[float] = []
        until = time.perf_counter() + seconds

        async def again(socket: Socket) -> None:
            ended = asyncio.get_running_loop().create_future()
            began = time.perf_counter()

            def answered() -> None:
                nonlocal began
                before, began = began, time.perf_counter()
                times.append(began - before)
                if began < until:
                    socket.send(CALL % (1, b"items"))
                else:
                    ended.set_result(None)

            socket.answered = answered
            socket.send(CALL % (1, b"items"))
            await asyncio.wait_for(ended, seconds + 30)
            socket.answered = lambda: None

        await asyncio.gather(*map(again, self.sockets))
        return len(times), _p99(times)

    async def events(self, number: int, seconds: float) -> tuple[int, float]:
        """Publish again when all have heard."""
        await self.connect(number)
        ended = asyncio.get_running_loop().create_future()
        times: list[float] = []
        heard = 0
        began = time.perf_counter()
        until = began + seconds

        def one_heard() -> None:
            nonlocal heard, began
            heard += 1
            if heard % number == 0:
                before, began = began, time.perf_counter()
                times.append(began - before)
                if began < until:
                    self.sockets[0].send(CALL % (1, b"feed"))
                else:
                    ended.set_result(None)

        for socket in self.sockets:
            socket.heard = one_heard
        self.sockets[0].send(CALL % (1, b"feed"))
        await asyncio.wait_for(ended, seconds + 30)
        for socket in self.sockets:
            socket.heard = lambda: None
        return heard, _p99(times)


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100] * 1000


async def main(url: str) -> None:
    """Do what standard input says, until it ends."""
    sockets = Sockets(url)
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        command, *numbers = line.decode().split()
        if command == "wait":
            await asyncio.sleep(float(numbers[0]))
            done, p99 = 0, 0.0
        elif command == "connect":
            done, p99 = await sockets.connect(int(numbers[0]))
        else:
            measure = {"calls": sockets.calls, "events": sockets.events}[command]
            done, p99 = await measure(int(numbers[0]), float(numbers[1]))
        print(done, p99, flush=True)


uvloop.run(main(sys.argv[1]))
