"""Clients that come back whenever they are cut off, and write down what they get.

They read the texts of socket.io and server-sent events by themselves: what is tested here must not
be read by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time

from tests.faults.journal import Inbox, Journal
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

SECONDS_OF_SILENCE = 15  # pings and comments come each few seconds
SECONDS_TO_CONNECT = 10
SECONDS_TO_ANSWER = 10


class Lost(Exception):
    """The connection ended before a call was answered: it may have been made."""


class SocketClient:
    """A socket.io client that recovers.

    Attributes:
        port: Where it connects the next time.
        room: Where it is, or wants to be.
        inbox: What it got.
        is_connected: Whether it has joined.
        reads: Cleared while it does not read.
    """

    def __init__(self, journal: Journal, number: int, port: int, room: str) -> None:
        self.journal, self.port, self.room = journal, port, room
        self.inbox = Inbox(journal, f"socket {number}")
        self.is_connected = False
        self.reads = asyncio.Event()
        self.reads.set()
        self._ids = itertools.count()
        self._calls: dict[int, asyncio.Future[object]] = {}
        self._websocket = None
        self._pid = self._offset = None

    async def run(self) -> None:
        """Connect, again and again, until it is cancelled."""
        while True:
            try:
                await self._connect_once()
            except (OSError, TimeoutError, WebSocketException) as error:
                self.inbox.note(f"cut off: {type(error).__name__} {error}"[:120])
            finally:
                self.is_connected = False
                for future in self._calls.values():
                    if not future.done():
                        future.set_result(None)
                self._calls.clear()
            self.journal.counts["cut off"] += 1
            await asyncio.sleep(random.uniform(0.05, 0.4))

    async def call(self, path: str, data: dict[str, object]) -> dict[str, object]:
        """Create a record.

        Raises:
            Lost: It is not known whether it was made.
        """
        number = next(self._ids)
        future = self._calls[number] = asyncio.get_running_loop().create_future()
        text = json.dumps(["create", path, data, {}])
        try:
            async with asyncio.timeout(SECONDS_TO_ANSWER):
                await self._websocket.send(f"42{number}{text}")
                answer = await future
        except (TimeoutError, WebSocketException) as lost:
            raise Lost from lost
        finally:
            self._calls.pop(number, None)
        if answer is None:
            raise Lost
        error, result = answer
        if error is not None:
            self.journal.break_promise(f"{self.inbox.name}: a call failed: {error}")
            raise Lost
        return result

    async def create_message(self) -> None:
        """Create a message in the room."""
        begun = time.monotonic()
        with contextlib.suppress(Lost):
            record = await self.call("messages", {"room": self.room, "text": "x" * 100})
            self.journal.acknowledge(record, begun)
            return
        self.journal.counts["lost calls"] += 1

    async def move(self, room: str) -> None:
        """Enter another room, however often that has to be tried."""
        self.inbox.may_be_in(room)
        self.room = room
        while True:
            if self.is_connected:
                with contextlib.suppress(Lost):
                    await self.call("moves", {"room": room})
                    self.inbox.entered(room)
                    self.journal.counts["moves"] += 1
                    return
            await asyncio.sleep(0.1)

    async def leave(self) -> None:
        """Tell the server that it leaves for good."""
        if self.is_connected:
            with contextlib.suppress(WebSocketException):
                await self._websocket.send("41")

    async def _connect_once(self) -> None:
        url = f"ws://127.0.0.1:{self.port}/socket.io/?EIO=4&transport=websocket"
        limits = {"max_size": 2**24, "ping_interval": None, "close_timeout": 0.2, "max_queue": 16}
        async with connect(
            url, compression=None, open_timeout=SECONDS_TO_CONNECT, proxy=None, **limits
        ) as websocket:
            self._websocket = websocket
            while True:
                await self.reads.wait()
                async with asyncio.timeout(SECONDS_OF_SILENCE):
                    text = await websocket.recv()
                await self._take(websocket, text)

    async def _take(self, websocket, text: str) -> None:
        kind = text[:1]
        if kind == "0":
            auth = {"room": self.room}
            if self._pid is not None:
                auth |= {"pid": self._pid, "offset": self._offset or ""}
            await websocket.send("40" + json.dumps(auth))
        elif kind == "2":
            await websocket.send("3")
        elif text.startswith("40"):
            joined = json.loads(text[2:])
            if joined["pid"] == self._pid:
                self.journal.counts["recovered"] += 1
                self.inbox.note("recovered")
            else:
                self._pid, self._offset = joined["pid"], None
                self.inbox.start_anew(self.room)
            self.is_connected = True
        elif text.startswith("42"):
            _, record, self._offset = json.loads(text[2:])
            self.inbox.take(record)
        elif text.startswith("43"):
            bracket = text.index("[")
            future = self._calls.get(int(text[2:bracket]))
            if future is not None and not future.done():
                error, *result = json.loads(text[bracket:])
                future.set_result((error, result[0] if result else None))
        elif text.startswith("44"):
            self.journal.counts["joins refused"] += 1
        elif text[:2] not in {"1", "6", "41"}:
            self.journal.break_promise(f"{self.inbox.name}: what is {text[:100]!r}?")


class StreamClient:
    """A reader of server-sent events that shows the last id it got.

    Attributes:
        inbox: What it got.
        is_connected: Whether the response has begun.
    """

    def __init__(self, journal: Journal, number: int, port: int, room: str) -> None:
        self.journal, self.port, self.room = journal, port, room
        self.inbox = Inbox(journal, f"stream {number}")
        self.is_connected = False
        self.reads = asyncio.Event()
        self.reads.set()
        self._last_id = None

    async def run(self) -> None:
        """Connect, again and again, until it is cancelled."""
        while True:
            try:
                await self._connect_once()
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self.inbox.note(f"cut off: {type(error).__name__} {error}"[:120])
            self.is_connected = False
            self.journal.counts["cut off"] += 1
            await asyncio.sleep(random.uniform(0.05, 0.4))

    async def _connect_once(self) -> None:
        async with asyncio.timeout(SECONDS_TO_CONNECT):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            shown = f"Last-Event-ID: {self._last_id}\r\n" if self._last_id else ""
            writer.write(
                f"GET /messages?room={self.room} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"Accept: text/event-stream\r\n{shown}\r\n".encode()
            )
            async with asyncio.timeout(SECONDS_TO_CONNECT):
                head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                self.journal.counts["streams refused"] += 1
                return
            await self._read_blocks(reader)
        finally:
            writer.transport.abort()

    async def _read_blocks(self, reader) -> None:
        text = ""
        while True:
            await self.reads.wait()
            async with asyncio.timeout(SECONDS_OF_SILENCE):
                size = int(await reader.readuntil(b"\r\n"), 16)
                chunk = await reader.readexactly(size + 2)
            if not size:
                return
            text += chunk[:-2].decode()
            *blocks, text = text.split("\n\n")
            for block in blocks:
                self._take(dict(line.partition(": ")[::2] for line in block.split("\n") if line))

    def _take(self, fields: dict[str, str]) -> None:
        if fields.get("event") == "reset" or self._last_id is None:
            self.inbox.start_anew(self.room)
        self.is_connected = True
        if fields.get("event") == "created":
            self.inbox.take(json.loads(fields["data"]))
        if fields.get("id"):
            self._last_id = fields["id"]
