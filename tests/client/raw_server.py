"""A server that does what a test says, on the level of sockets."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

RESET, CLOSE, STALL = "reset", "close", "stall"
SECONDS_TO_WAIT = 30


def answer(value: Any = None, status: int = 200, *, body: bytes | None = None, **headers: str):
    """Return the bytes of an answer."""
    sent = json.dumps(value).encode() if body is None else body
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    every = {"content-type": "application/json", "content-length": str(len(sent)), **told}
    lines = "".join(f"{name}: {each}\r\n" for name, each in every.items())
    return f"HTTP/1.1 {status} Told\r\n{lines}\r\n".encode() + sent


class RawServer:
    """Takes one step for each request: bytes are sent, words say what is done to the connection,
    and functions do it.

    Attributes:
        steps: What is still to be done; a tuple is done in one step.
        requests: The requests as they came.
        connections: How many there were.
        disconnected: Set once the other side has ended a connection that was stalled.
    """

    def __init__(self, steps: tuple[Any, ...]) -> None:
        self.steps = list(steps)
        self.requests: list[bytes] = []
        self.connections = 0
        self.disconnected = threading.Event()
        self.stalled = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(SECONDS_TO_WAIT)
            assert not thread.is_alive(), "a connection was left open"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(connection,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while request := read_request(connection):
                self.requests.append(request)
                step = self.steps.pop(0) if self.steps else CLOSE
                for each in step if isinstance(step, tuple) else (step,):
                    if not self._do(connection, each):
                        return

    def _do(self, connection: socket.socket, step: Any) -> bool:
        if isinstance(step, bytes):
            connection.sendall(step)
            return True
        if callable(step):
            step(connection)
            return True
        if step == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if step == STALL:
            self.stalled.set()
            with suppress(ConnectionError):
                connection.recv(1)
            self.disconnected.set()
        return False


def read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server(*steps: Any) -> Iterator[RawServer]:
    server = RawServer(steps)
    try:
        yield server
    finally:
        server.close()
