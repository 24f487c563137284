"""A crowd at the workers of `alula serve`: it talks, while a test hits what is below."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cli.serving.commands import running
from tests.faults.clients import SocketClient, StreamClient
from tests.faults.journal import Journal
from tests.faults.network import Network

HERE = Path(__file__).parent
SECONDS_TO_SETTLE = 60


class Server:
    """`alula serve` with the application of the rooms.

    Attributes:
        port: Where it listens.
        command: The supervisor.
    """

    def __init__(self, command, folder: Path, workers: int) -> None:
        self.command, self.folder, self.workers = command, folder, workers
        self.port = command.port()

    def pids(self) -> list[int]:
        """Return the processes of the workers."""
        pid = self.command.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except OSError:
            return []
        return [int(child) for child in children.split()]

    def kill_worker(self) -> int:
        """End a worker at once; return which."""
        pid = random.choice(self.pids())
        os.kill(pid, signal.SIGKILL)
        return pid

    def sockets_left(self) -> list[Path]:
        """Return the directories of sockets that were not removed."""
        return list(self.folder.glob("alula-*"))

    def reports(self) -> list[dict[str, float]]:
        """Return what each worker that runs has told last."""
        paths = [self.folder / f"{pid}.json" for pid in self.pids()]
        return [json.loads(path.read_text()) for path in paths if path.exists()]

    async def until_reports(self, condition, what: str, seconds: float = SECONDS_TO_SETTLE):
        """Wait until all workers run and a condition holds for their reports, and return them."""
        end = time.monotonic() + seconds
        while True:
            reports = self.reports()
            if len(reports) == self.workers and all(map(condition, reports)):
                return reports
            is_late = time.monotonic() > end or self.command.process.poll() is not None
            assert not is_late, f"{what}: {reports}\n{self.command.text[-4000:]}"
            await asyncio.sleep(0.1)


@asynccontextmanager
async def rooms_server(
    workers: int, engine: str = "", recover: float = 30, ping: float = 1
) -> AsyncIterator[Server]:
    """Run the application at so many workers.

    Args:
        workers: How many.
        engine: The URL of what carries events, empty for the hub.
        recover: How many seconds a client may be away.
        ping: Seconds between two heartbeats.
    """
    with tempfile.TemporaryDirectory(prefix="rooms") as folder:
        environment = {"ROOMS_FOLDER": folder, "ROOMS_ENGINE": engine}
        environment |= {"ROOMS_RECOVER": str(recover), "ROOMS_PING": str(ping), "TMPDIR": folder}
        options = ("--workers", str(workers), "--port", "0", "--no-access-log")
        with running(HERE, "serve", "rooms_application:app", *options, **environment) as command:
            served = Server(command, Path(folder), workers)
            await served.until_reports(lambda _: True, "the workers did not start")
            yield served
            assert command.end(signal.SIGTERM) == 0
            assert "Traceback" not in command.text, command.text
            assert not served.sockets_left()


class Crowd:
    """Clients in rooms, half of them behind a network that can be cut.

    Args:
        server: The server.
        network: The network.
        size: How many clients there are.
        rate: How many messages they create in a second.
    """

    def __init__(self, server: Server, network: Network, size: int, rate: float) -> None:
        self.journal = Journal()
        self.rate = rate
        self.rooms = [f"room-{n}" for n in range(max(2, size // 20))]
        self.clients: list[SocketClient | StreamClient] = []
        for number in range(size):
            kind = StreamClient if number % 10 == 9 else SocketClient
            port = network.port if number % 2 else server.port
            self.clients.append(kind(self.journal, number, port, random.choice(self.rooms)))
        self._tasks: list[asyncio.Task[None]] = []
        self._talking: set[asyncio.Task[None]] = set()
        self._moving: set[SocketClient] = set()

    @property
    def sockets(self) -> list[SocketClient]:
        return [client for client in self.clients if isinstance(client, SocketClient)]

    async def __aenter__(self) -> Crowd:
        """Connect all."""
        for number, client in enumerate(self.clients):
            self._tasks.append(asyncio.create_task(client.run()))
            if not number % 50:
                await asyncio.sleep(0.05)
        try:
            await self.until_connected()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def until_connected(self) -> None:
        end = time.monotonic() + SECONDS_TO_SETTLE
        while away := [client for client in self.clients if not client.is_connected]:
            assert time.monotonic() < end, [client.inbox.history for client in away[:3]]
            await asyncio.sleep(0.05)

    @asynccontextmanager
    async def talking(self) -> AsyncIterator[None]:
        """Have clients create messages, and move between rooms, during a block."""
        task = asyncio.create_task(self._talk())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if self._talking:
                await asyncio.wait(self._talking)

    async def settle(self) -> None:
        """Wait until all are connected and have got all that they are owed."""
        await self.until_connected()
        for _ in range(3):  # what comes later shows that nothing before it is missing
            await asyncio.gather(*(self._client_in(room).create_message() for room in self.rooms))
        end = time.monotonic() + SECONDS_TO_SETTLE
        while lacking := [text for client in self.clients for text in client.inbox.lacks()]:
            if time.monotonic() > end:
                self.journal.break_promise("\n".join([f"{len(lacking)} are lacking", *lacking[:5]]))
                return
            await asyncio.sleep(0.2)

    async def leave(self) -> None:
        """Disconnect all, as clients do that leave."""
        await asyncio.gather(*(client.leave() for client in self.sockets))
        await self.__aexit__()

    def _client_in(self, room: str) -> SocketClient:
        inside = [client for client in self.sockets if client.room == room]
        return random.choice(inside or self.sockets)

    async def _talk(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += 1 / self.rate
            await asyncio.sleep(max(0, due - loop.time()))
            client = random.choice(self.sockets)
            if not client.is_connected or client in self._moving or not client.reads.is_set():
                continue
            moves = random.random() < 0.02
            task = loop.create_task(self._move(client) if moves else client.create_message())
            self._talking.add(task)
            task.add_done_callback(self._talking.discard)

    async def _move(self, client: SocketClient) -> None:
        self._moving.add(client)
        try:
            await client.move(random.choice([r for r in self.rooms if r != client.room]))
        finally:
            self._moving.discard(client)
