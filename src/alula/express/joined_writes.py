"""The head of an answer and the first part of its body in one write.

uvicorn writes the head by itself, which costs a system call and a packet for each answer. ASGI
asks a server to wait for the body: "the server must not start sending before it has received at
least one body event".
"""

from __future__ import annotations

import asyncio

__all__ = ["JoinedWrites"]

_CONTINUE = b"HTTP/1.1 100"  # a client that waits for leave to send its body gets it at once
_COPIED = 64 * 1024  # a longer part goes by itself rather than being copied


class JoinedWrites:
    """What the answer to one request is written to: its head waits for what comes next.

    Args:
        transport: Of the connection.
    """

    __slots__ = ("_began", "_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None
        self._began = False

    def write(self, data: bytes) -> None:
        """Write a head, or a part of the body."""
        if self._began:
            self._transport.write(data)
        elif self._head is not None:
            self._begin(data)
        elif data.startswith(_CONTINUE):
            self._transport.write(data)
        else:
            self._head = data

    def close(self) -> None:
        """Close the connection once all is written."""
        if self._head is not None and not self._began:
            self._begin(b"")
        self._transport.close()

    def is_closing(self) -> bool:
        """Tell whether the connection is closed or about to be."""
        return self._transport.is_closing()

    def _begin(self, data: bytes) -> None:
        self._began = True
        head = self._head or b""
        if len(data) > _COPIED:
            self._transport.write(head)
            self._transport.write(data)
        else:
            self._transport.write(head + data)
