"""Sockets that servers listen on: on a port, on a Unix path, or inherited from another process."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Any, Final

__all__ = [
    "ListenError",
    "listen_on_path",
    "listen_on_port",
    "refuse_connections",
    "socket_from_descriptor",
    "url_of",
]

BACKLOG: Final = 2048
"""How many connections may wait to be accepted; systems lower it to their own limit."""

_SO_ATTACH_FILTER: Final = 26  # asm-generic/socket.h of Linux; Python has no name for it

_NO_NEW_CONNECTIONS: Final = struct.pack(
    "HBBI" * 5,
    0x30,
    0,
    0,
    13,  # load the byte of a TCP segment that has its flags,
    0x54,
    0,
    0,
    0x12,  # look at SYN and ACK alone,
    0x15,
    0,
    1,
    0x02,  # and if it is SYN without ACK,
    0x06,
    0,
    0,
    0,  # drop the segment,
    0x06,
    0,
    0,
    0xFFFFFFFF,  # or else keep it.
)
"""A program for the kernel's packet filter (man 7 socket, SO_ATTACH_FILTER)."""

_REACHABLE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # every address -> one
_PATH_MODE: Final = 0o666  # a proxy in front runs as another user and must be able to connect


class ListenError(OSError):
    """A port or path is in use, or not allowed for this user; the message says what to do."""


def listen_on_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a TCP port.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.

    Raises:
        ListenError: The port is in use or not allowed; the message names it.
        ValueError: ``port`` is not a number from 0 to 65535.
    """
    if not isinstance(port, int) or not 0 <= port <= 65535:
        is_text = isinstance(port, str) and port.isdecimal()
        hint = f", not a string: {int(port)}, or int(...) of a variable" if is_text else ""
        raise ValueError(
            f"cannot listen on the port {port!r}; a port is a number up to 65535{hint}"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is IPPROTO_TCP. Without it, Nagle's algorithm
    # delays the second part of a response by some 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Else a restart cannot listen for a minute: closed connections hold the port in TIME_WAIT.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenError(
            error.errno, f"cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from None
    sock.setblocking(False)
    return sock


def listen_on_path(path: str) -> socket.socket:
    """Return a Unix socket that listens; it replaces a path that a dead server left behind.

    Raises:
        ListenError: The path is in use or not allowed; the message says why.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        sock.bind(path)
        # bind() has made the path with only the rights that the umask leaves.
        Path(path).chmod(_PATH_MODE)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        reason = error.strerror or error
        raise ListenError(
            error.errno, f"cannot listen on {path}: {reason}; choose another path"
        ) from None
    sock.setblocking(False)
    return sock


def _remove_stale(path: str) -> None:
    """Remove the path of a socket without a server.

    Raises:
        OSError: A server uses it or may use it, or it is not a socket.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # Path.is_socket hides other errors
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "there is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Only ECONNREFUSED means that no process listens. Other errors come from sockets in use:
        # datagram sockets, those of another user, or with a full backlog.
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    Path(path).unlink()


def refuse_connections(sock: socket.socket) -> None:
    """Let nobody else connect to a socket, for all processes that share it.

    Those that have connected can still be accepted. For the end of a server: whoever connects
    between the last ``accept`` and the end of listening is reset, with the request that was sent.
    On Linux, TCP drops what begins a connection from now on; the client tries again a second later,
    and is refused. A Unix socket loses its path. Elsewhere this does nothing.
    """
    name = sock.getsockname()
    if isinstance(name, str):
        with contextlib.suppress(OSError):
            Path(name).unlink()
    elif sys.platform == "linux":
        _drop_beginnings(sock)


def _drop_beginnings(sock: socket.socket) -> None:
    import ctypes  # noqa: PLC0415  # for servers that end

    program = ctypes.create_string_buffer(_NO_NEW_CONNECTIONS)
    count = len(_NO_NEW_CONNECTIONS) // struct.calcsize("HBBI")
    # A kernel may be built without filters, and sandboxes have none.
    with contextlib.suppress(OSError):
        fields = struct.pack("HP", count, ctypes.addressof(program))
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fields)


def socket_from_descriptor(descriptor: int) -> socket.socket:
    """Return the socket of a file descriptor that another process passed on."""
    sock = socket.socket(fileno=descriptor)
    if sock.family in {socket.AF_INET, socket.AF_INET6}:
        # Not every system reports the protocol of an inherited socket; see listen_on_port.
        sock = socket.socket(
            sock.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=sock.detach()
        )
    sock.setblocking(False)
    return sock


def url_of(scheme: str, name: tuple[Any, ...] | str) -> str:
    """Return the URL to open for the address of a listening socket.

    Args:
        scheme: ``http`` or ``https``.
        name: The result of ``getsockname()``. For a Unix socket, the URL is ``unix:`` and its path.
    """
    if not isinstance(name, tuple):
        return f"unix:{name}"
    # RFC 3986, 3.2.2: an IPv6 address is in brackets, since its colons look like a port.
    host = str(_REACHABLE.get(name[0], name[0]))
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{name[1]}"
