"""The processes of `alula serve` and `alula dev`: a socket, and who looks after the workers."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from alula._cli.serving.certificates import check_certificate
from alula._cli.serving.process import WorkerProcess
from alula._cli.serving.reloader import Reloader
from alula._cli.serving.settings import WorkerSettings
from alula._cli.serving.supervisor import Supervisor
from alula._cli.terminal import UsageError
from alula._sockets import listen_on_path, listen_on_port, remove_path, url_of
from alula.logs import configure_logging

__all__ = ["develop", "produce"]

_log = logging.getLogger("alula.serve")

IS_UNIX: Final = os.name == "posix"
"""Whether sockets can be handed to other processes by their descriptors."""

_CLEANING_SECONDS: Final = 15
"""How long a worker may take for what comes after its last request, before it is killed."""


def produce(settings: WorkerSettings, count: int, *, host: str, port: int, path: str | None) -> int:
    """Serve until a signal comes.

    Args:
        settings: Of every worker.
        count: How many workers.
        host: Address to listen on.
        port: TCP port, 0 for any.
        path: Of a Unix socket to listen on instead, None for none.

    Returns:
        The exit code.

    Raises:
        UsageError: The port or path can not be had, or the certificate not be used.
    """
    check_certificate(settings.ssl_certfile, settings.ssl_keyfile)
    configure_logging()
    sock = _listen(host, port, path)
    url = url_of("https" if settings.ssl_certfile else "http", sock.getsockname())
    patience = settings.drain + settings.linger + settings.graceful_timeout + _CLEANING_SECONDS

    async def run() -> int:
        def start(alone: bool) -> Awaitable[WorkerProcess]:
            return WorkerProcess.start(settings.changed(early=alone, workers=count), sock)

        supervisor = Supervisor(start, count, patience, partial(_close, sock))
        supervisor.listen_to_signals()
        _log.info("listening on %s", url)
        return await supervisor.run()

    return asyncio.run(run())


def develop(settings: WorkerSettings, host: str, port: int, watched: Sequence[Path]) -> int:
    """Serve until a signal comes, with a new worker whenever a file has changed.

    Args:
        settings: Of the worker.
        host: Address to listen on.
        port: TCP port, 0 for any.
        watched: Folders and files to watch besides the current folder.

    Returns:
        The exit code.

    Raises:
        UsageError: The port can not be had.
    """
    sock = _listen(host, port, None)

    async def run() -> int:
        reloader = Reloader(settings, sock, [Path.cwd(), *watched])
        reloader.listen_to_signals()
        return await reloader.run()

    with sock:
        return asyncio.run(run())


def _listen(host: str, port: int, path: str | None) -> socket.socket:
    if not IS_UNIX:
        raise UsageError(
            "alula serve and alula dev need a system with Unix processes; here, run the"
            " application from a script: app.run(3030)"
        )
    if find_spec("uvicorn") is None:
        raise UsageError("there is no server here; install one with: pip install 'alula[server]'")
    try:
        return listen_on_port(host, port) if path is None else listen_on_path(path)
    except OSError as error:
        raise UsageError(error.args[-1]) from None


def _close(sock: socket.socket) -> None:
    remove_path(sock)
    sock.close()
