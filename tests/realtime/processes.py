"""Processes that share a bus, as their channels see it, and a Redis that can be killed."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

from tests.requirements import require_redis
from tests.waiting import eventually

from alula._channels import Event
from alula.realtime._bus._relay import Relay, RelaySettings

QUICK = RelaySettings(first_pause=0.005, longest_pause=0.02, publish_timeout=0.5, flush_timeout=0.5)


class Process:
    """One process: what it publishes, and what has arrived from the others.

    Attributes:
        received: The numbers of the events, in the order in which they arrived.
        events: These events.
        gaps: How often it was told that events did not arrive.
    """

    def __init__(self, bus, settings=QUICK):
        self.origin = ""
        self.forward = None
        self.log = None
        self.events = []
        self.gaps = 0
        self.relay = Relay(self, bus, settings)
        self._sequence = 0

    @property
    def received(self):
        return [event.record for event in self.events]

    def receive(self, event):
        self.events.append(event)

    def report_gap(self):
        self.gaps += 1

    def publish(self, *records, **values):
        for record in records:
            self._sequence += 1
            fields = {"method": "create", "provider": "rest", **values}
            self.forward(
                Event(
                    path="messages",
                    name="created",
                    record=record,
                    data=record,
                    origin=self.origin,
                    sequence=self._sequence,
                    **fields,
                )
            )

    async def listens(self):
        """Wait until it gets the events that others publish from now on."""
        await eventually(lambda: self.relay.is_listening)


@asynccontextmanager
async def processes(*buses, settings=QUICK):
    """Run a process for each bus; all of them listen when the block begins."""
    started = [Process(bus, settings) for bus in buses]
    for process in started:
        process.relay.start()
    try:
        for process in started:
            await process.listens()
        yield started
    finally:
        for process in started:
            await process.relay.stop()


class Redis:
    """A redis-server of a test, without persistence: a restart loses everything.

    Attributes:
        url: Where it is.
        stream: A key that no other test uses.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.stream = f"test:{secrets.token_hex(4)}"
        self._folder = folder
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: ASYNC220  # it returns at once
            [
                require_redis(),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(self._folder),
                "--save",
                "",
                *self._arguments,
            ],
            stdout=subprocess.DEVNULL,
        )
        await eventually(self._accepts)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def is_dead(self) -> bool:
        return self._process is None

    def stall(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)
