"""Sockets that servers listen on: bound here or by another process, at a port or at a path."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any, Final

__all__ = ["CannotListen", "adopt", "listen_at_path", "listen_at_port", "remove_path", "url_of"]

BACKLOG: Final = 2048
"""How many connections may wait to be accepted; systems lower it to their own limit."""

_REACHABLE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # every address -> one
_MODE: Final = 0o666  # the proxy in front runs as somebody else


class CannotListen(OSError):
    """A port or a path is not free, or not for this user; its text says what to do."""


def listen_at_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: Address to listen on.
        port: TCP port, 0 for any that is free.

    Raises:
        CannotListen: The port cannot be had; the message says which.
        ValueError: ``port`` is no port.
    """
    if not isinstance(port, int) or not 0 <= port <= 65535:
        text = isinstance(port, str) and port.isdecimal()
        hint = f", not a string: {int(port)}, or int(...) of a variable" if text else ""
        raise ValueError(
            f"cannot listen on the port {port!r}; a port is a number up to 65535{hint}"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends each part at once; otherwise the second part of an
    # answer waits some 40 ms for the first to be acknowledged.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CannotListen(
            error.errno, f"cannot listen on {host}:{port}: {error.strerror}; choose another port"
        ) from None
    sock.setblocking(False)
    return sock


def listen_at_path(path: str) -> socket.socket:
    """Return a Unix socket that listens; a path that a dead server has left behind is taken over.

    Raises:
        CannotListen: The path cannot be had; the message says why.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _free(path)
        sock.bind(path)
        Path(path).chmod(_MODE)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        said = error.strerror or error
        raise CannotListen(
            error.errno, f"cannot listen on {path}: {said}; choose another path"
        ) from None
    sock.setblocking(False)
    return sock


def remove_path(sock: socket.socket) -> None:
    """Remove the path of a Unix socket that listened, so that the next server finds it free."""
    name = sock.getsockname()
    if isinstance(name, str):
        with contextlib.suppress(OSError):
            Path(name).unlink()


def adopt(descriptor: int) -> socket.socket:
    """Return the socket behind a descriptor that another process has handed over."""
    found = socket.socket(fileno=descriptor)
    if found.family in {socket.AF_INET, socket.AF_INET6}:  # not every system tells the protocol
        found = socket.socket(
            found.family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=found.detach()
        )
    found.setblocking(False)
    return found


def url_of(scheme: str, name: Any) -> str:
    """Return the URL to open for the name of a socket that listens, ``unix:`` and a path for some.

    Args:
        scheme: ``http`` or ``https``.
        name: What ``getsockname()`` returns.
    """
    if not isinstance(name, tuple):
        return f"unix:{name}"
    host = str(_REACHABLE.get(name[0], name[0]))
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{name[1]}"


def _free(path: str) -> None:
    """Remove a socket that nobody holds any more.

    Raises:
        OSError: Somebody does, or may do so, or it is something else.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # a link to nowhere is no socket either
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Only this answer tells that nobody is there. Others come from sockets that are in use: of
        # another kind (datagrams), of another user, or with too many clients that wait.
        if probe.connect_ex(path) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    Path(path).unlink()
