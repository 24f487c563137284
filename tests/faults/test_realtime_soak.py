"""Connections that come and go, and events without end, leave nothing behind."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.faults.rooms import rooms_server

pytestmark = pytest.mark.slow

AT_ONCE = 50
LISTENERS = 100
MIB = 1024

UPGRADE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def frame_of(text: str) -> bytes:
    """Return a masked text frame; a mask of zeros changes nothing."""
    data = text.encode()
    assert len(data) < 126
    return bytes((0x81, 0x80 | len(data), 0, 0, 0, 0)) + data


JOIN = frame_of('40{"room":"soak"}')
LEAVE = frame_of("41")
CLOSE = bytes((0x88, 0x80, 0, 0, 0, 0))
PONG = frame_of("3")
CREATE = frame_of('421["create","messages",{"room":"soak"},{}]')


class Connection(asyncio.Protocol):
    """A client that reads no more than it has to.

    Attributes:
        joined: Done when it has joined.
        events: How many events it got.
    """

    def __init__(self, got=None):
        loop = asyncio.get_running_loop()
        self.joined, self.closed = loop.create_future(), loop.create_future()
        self.events = 0
        self._got = got

    def connection_made(self, transport):
        self.transport = transport
        transport.write(UPGRADE)

    def data_received(self, data):
        if not self.joined.done():
            if data.startswith(b"HTTP/1.1 101"):
                self.transport.write(JOIN)
            if b"40{" in data:
                self.joined.set_result(None)
            return
        # Frames of the server are short, and a heartbeat is exactly this.
        if b"\x81\x012" in data:
            self.transport.write(PONG)
        if events := data.count(b'42["messages created"'):
            self.events += events
            if self._got is not None:
                self._got(events)

    def connection_lost(self, error):
        if not self.joined.done():
            self.joined.set_exception(ConnectionError("it could not join"))
        self.closed.set_result(None)


async def connect(port, got=None):
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(got), "127.0.0.1", port)
    async with asyncio.timeout(30):
        await connection.joined
    return connection


async def come_and_go(port, number):
    """Connect, and leave in one of the ways of clients."""
    connection = await connect(port)
    if number % 3 == 0:
        connection.transport.abort()
    elif number % 3 == 1:
        connection.transport.write(LEAVE)
        connection.transport.close()
    else:
        connection.transport.write(CLOSE)
        connection.transport.close()
    await connection.closed


def progress(begun, text, server):
    [report] = server.reports()
    names = ("kib", "connections", "tasks", "descriptors")
    figures = ", ".join(f"{name} {report[name]}" for name in names)
    print(f"{time.monotonic() - begun:7.1f} s {text}: {figures}", flush=True)


async def soak(connects, events):
    """Connect and create so often; return what the worker held at first, later and in the end."""
    begun = time.monotonic()
    async with rooms_server(1, recover=1) as server:
        [before] = server.reports()
        # The first tenth: memory that is used once is kept for the next ones.
        await come_and_go_often(server, connects // 10, begun)
        [early] = await is_empty(server, before)
        await come_and_go_often(server, connects - connects // 10, begun)
        [late] = await is_empty(server, before)
        progress(begun, "all have left", server)
        await send_events(server, events, begun)
        [after] = await is_empty(server, before)
        progress(begun, "all is over", server)
        return early, late, after


async def come_and_go_often(server, count, begun):
    """Have so many clients come and go, some of them at the same time."""
    numbers = iter(range(count))
    told = max(1, count // 10)

    async def visitor():
        for number in numbers:
            await come_and_go(server.port, number)
            if number % told == told - 1:
                progress(begun, f"{number + 1} of {count} connections", server)

    await asyncio.gather(*(visitor() for _ in range(AT_ONCE)))


async def send_events(server, events, begun):
    """Have listeners get so many events, all of them together."""
    missing, all_here = 0, asyncio.Event()

    def got(count):
        nonlocal missing
        missing -= count
        if missing <= 0:
            all_here.set()

    listeners = [await connect(server.port, got) for _ in range(LISTENERS)]
    turns = max(1, events // LISTENERS // 10)
    for turn in range(turns):
        missing += 10 * LISTENERS
        all_here.clear()
        listeners[turn % LISTENERS].transport.write(10 * CREATE)
        async with asyncio.timeout(30):
            await all_here.wait()
        if turn % max(1, turns // 10) == 0:
            progress(begun, f"{sum(each.events for each in listeners)} events", server)
    assert {each.events for each in listeners} == {10 * turns}
    for listener in listeners:
        listener.transport.abort()


async def is_empty(server, before):
    """Wait until the worker holds no connection, channel, task or descriptor of them."""
    return await server.until_reports(
        lambda report: (
            report["connections"] == report["channels"] == 0
            and report["tasks"] <= before["tasks"]
            and report["descriptors"] <= before["descriptors"] + 2
        ),
        f"more is left than {before}",
    )


async def test_connections_and_events_leave_nothing(thorough):
    early, late, after = await soak(*((200_000, 1_000_000) if thorough else (400, 10_000)))
    assert late["kib"] - early["kib"] < 24 * MIB
    assert after["kib"] - late["kib"] < 24 * MIB
