"""The connections of a server as Linux knows them, for a server that does not show its own.

granian keeps its connections in Rust. They are found among the descriptors of the process instead:
sockets whose own port is that of the server. Linux also tells what a client has read, so that a
client that stalls can be cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
import sys
from typing import Any, Final, NamedTuple, TypeAlias

from alula.express._connection_limits import ConnectionLimits, StallTimeout

__all__ = ["IS_SUPPORTED", "Connection", "Connections", "Peer"]

IS_SUPPORTED: Final = sys.platform == "linux"
"""Whether the system tells what is read here."""

Peer: TypeAlias = tuple[str, int]
"""The address and the port of a client."""

_PER_TURN: Final = 100  # descriptors that are looked at before the event loop goes on, some 1 ms
_GATHER_SECONDS: Final = 0.02  # for which connections to reset are gathered, to search them once

# Where `struct tcp_info` has tcpi_unacked, tcpi_bytes_acked and tcpi_notsent_bytes.
_UNACKNOWLEDGED: Final = 24
_ACKNOWLEDGED_BYTES: Final = 120
_NOT_SENT_BYTES: Final = 144
_INFO_BYTES: Final = _NOT_SENT_BYTES + 4

_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: what the client has not read is dropped


class Connection(NamedTuple):
    """A connection, as it was a moment ago.

    Attributes:
        descriptor: The descriptor of granian.
        inode: The number of the socket; a descriptor may belong to another one later.
        peer: The client.
        read_bytes: How many bytes the client has acknowledged.
        is_unread: Whether bytes wait that cannot be sent, since the client does not read.
        is_flushed: Whether the client has acknowledged all that was written.
    """

    descriptor: int
    inode: int
    peer: Peer
    read_bytes: int
    is_unread: bool
    is_flushed: bool


class Connections:
    """The connections of a server.

    Args:
        sock: The socket on which the server listens.
        limits: How slowly clients may read.
    """

    def __init__(self, sock: socket.socket, limits: ConnectionLimits) -> None:
        self._family = sock.family
        self._name: tuple[Any, ...] = sock.getsockname()
        self._is_any_address = self._name[0] in {"0.0.0.0", "::"}  # noqa: S104  # nothing is opened
        self._limits = limits
        self._timeouts: dict[int, StallTimeout] = {}
        self._unwanted: set[Peer] = set()
        self._resetting: asyncio.Task[None] | None = None
        self._inodes: set[int] | None = None  # of the connections to look at; None for all

    async def keep_to_these(self) -> None:
        """Know no other connections from now on than those of this moment."""
        self._inodes = {connection.inode for connection in await self.all()}

    async def all(self) -> list[Connection]:
        """Return the open connections."""
        connections: list[Connection] = []
        for count, name in enumerate(os.listdir("/proc/self/fd")):  # noqa: PTH208  # no Path for each
            if count % _PER_TURN == 0:
                await asyncio.sleep(0)
            with contextlib.suppress(OSError):  # it is closed by now, or not connected
                connection = self._connection_of(int(name))
                if connection is not None:
                    connections.append(connection)
        return connections

    def _connection_of(self, descriptor: int) -> Connection | None:
        status = os.fstat(descriptor)
        is_known = self._inodes is None or status.st_ino in self._inodes
        if not is_known or not stat.S_ISSOCK(status.st_mode):
            return None
        # Not a duplicate, which costs two system calls more: nothing is changed here.
        sock = socket.socket(self._family, socket.SOCK_STREAM, socket.IPPROTO_TCP, descriptor)
        try:
            name = sock.getsockname()
            # Another server here may have the same port at another address.
            if len(name) != len(self._name) or name[1:2] != self._name[1:2]:
                return None
            if not self._is_any_address and name[0] != self._name[0]:
                return None
            host, port = sock.getpeername()[:2]
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        finally:
            sock.detach()
        (unacknowledged,) = struct.unpack_from("=I", info, _UNACKNOWLEDGED)
        (read_bytes,) = struct.unpack_from("=Q", info, _ACKNOWLEDGED_BYTES)
        (not_sent,) = struct.unpack_from("=I", info, _NOT_SENT_BYTES)
        return Connection(
            descriptor,
            status.st_ino,
            (host.partition("%")[0], port),  # granian does not name the interface of an address
            read_bytes,
            is_unread=not_sent > 0,
            is_flushed=not not_sent and not unacknowledged,
        )

    async def reset_stalled(self, now: float) -> set[Peer]:
        """Reset the connections whose clients read too slowly, and return all other clients.

        Args:
            now: The time of the event loop.
        """
        limits, before = self._limits, self._timeouts
        others: set[Peer] = set()
        self._timeouts = {}
        for connection in await self.all():
            timeout = before.get(connection.inode) or StallTimeout(
                limits.write_timeout, limits.write_timeout * limits.min_rate
            )
            self._timeouts[connection.inode] = timeout
            target = self if connection.is_unread else None
            if timeout.has_passed(target, connection.read_bytes, now):
                self.end(connection, reset=True)
            else:
                others.add(connection.peer)
        return others

    async def reset(self, peer: Peer) -> None:
        """Reset the connection of a client, and return once that is done."""

        async def reset_unwanted() -> None:
            await asyncio.sleep(_GATHER_SECONDS)
            unwanted, self._unwanted, self._resetting = self._unwanted, set(), None
            for connection in await self.all():
                if connection.peer in unwanted:
                    self.end(connection, reset=True)

        self._unwanted.add(peer)
        if self._resetting is None:
            self._resetting = asyncio.create_task(reset_unwanted())
        await asyncio.shield(self._resetting)

    def end(self, connection: Connection, *, reset: bool) -> None:
        """End a connection; granian sees that its client has gone.

        Args:
            connection: The connection.
            reset: Whether what the client has not read yet is dropped.
        """
        with contextlib.suppress(OSError):  # it has just ended
            # granian may close its descriptor at any time, and the system give it to another file.
            duplicate = os.dup(connection.descriptor)
            with socket.socket(
                self._family, socket.SOCK_STREAM, socket.IPPROTO_TCP, duplicate
            ) as sock:
                if os.fstat(duplicate).st_ino == connection.inode:
                    if reset:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    sock.shutdown(socket.SHUT_RDWR)
