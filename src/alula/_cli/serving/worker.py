"""A worker: one process that loads the application and serves it on a socket that it is given."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import signal
import socket
import sys
from collections.abc import Awaitable
from typing import Any

import typer

from alula._cli.application import load_application
from alula._cli.listing import process_local_services
from alula._cli.serving.announcing import announce
from alula._cli.serving.certificates import check_certificate
from alula._cli.serving.failing import failing
from alula._cli.serving.settings import HEARTBEAT, HEARTBEAT_SECONDS, READY, WorkerSettings
from alula._cli.terminal import EXIT_FAILURE, EXIT_USAGE, UsageError, format_error, print_error
from alula._sockets import socket_from_descriptor
from alula.express import WebApplication, access_log, request_id
from alula.express._server import Server, quickest_loop
from alula.logs import configure_logging
from alula.watchdog import LoopWatchdog

__all__ = ["main", "work"]

_log = logging.getLogger("alula.serve")


def main() -> None:
    """Work as a process: the first argument of the command line is the text of its settings."""
    faulthandler.enable()  # where it hangs, SIGABRT has it write its stack
    raise SystemExit(work(WorkerSettings.from_text(sys.argv[1])))


def work(settings: WorkerSettings) -> int:
    """Serve until SIGTERM, or until the process at the other end of ``control`` has ended.

    Returns:
        The exit code; where the application does not start, why is on the standard error.
    """
    for number in (signal.SIGINT, signal.SIGHUP):  # they are for the process that looks after it
        signal.signal(number, signal.SIG_IGN)
    quiet = {} if settings.access_log else {"alula.access": logging.WARNING}
    configure_logging(levels={"uvicorn": logging.WARNING, **quiet})
    sock, control = socket_from_descriptor(settings.socket), socket.socket(fileno=settings.control)
    with control, contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        try:
            app = web_application(settings)
        except Exception as error:  # noqa: BLE001  # the code of the user
            if not settings.development:
                tell(error)
                return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE
            app = _failing(error)
        with asyncio.Runner(loop_factory=quickest_loop()) as runner:
            return runner.run(_Life(app, settings, sock, control).live())


def web_application(settings: WorkerSettings) -> WebApplication:
    """Load the application, with a line in the log for each request where that is wanted.

    Raises:
        UsageError: There is none, or none that could be served.
        Exception: Whatever its code raises.
    """
    app = load_application(settings.target, plain=True)
    if not isinstance(app, WebApplication):
        raise UsageError(
            f"{settings.target!r} is {app!r}, which has no web server; serve what express() makes"
            " of it: web = express(app)"
        )
    if settings.access_log:
        app.begin_with(request_id(), access_log())
    # Of several workers, the one says it that takes requests before all others.
    if settings.workers > 1 and settings.early and (names := process_local_services(app)):
        _log.warning(
            "%d workers serve services whose records are in the memory of one process: %s. Each"
            " worker has records of its own; keep them in a database, or use --workers 1",
            settings.workers,
            ", ".join(names),
        )
    return app


def _failing(error: Exception) -> WebApplication:
    """Tell why the application does not start, and return one that answers that."""
    app = failing(tell(error))
    print_error("it starts again when a file changes")
    return app


def tell(error: Exception) -> str:
    """Write on the standard error why the application does not start, and return that."""
    if isinstance(error, UsageError):
        print_error(error.message)
        return str(error.message)
    text = format_error(error)
    typer.echo(text, err=True)
    return text


class _Life:
    """From the set-up to the teardown of a worker."""

    def __init__(
        self,
        app: WebApplication,
        settings: WorkerSettings,
        sock: socket.socket,
        control: socket.socket,
    ) -> None:
        self._app = app
        self._settings = settings
        self._sock = sock
        self._control = control
        self._leave = asyncio.Event()
        self._seconds_to_drain = 0.0

    async def live(self) -> int:
        """Serve until it is time to leave; return the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop)
        loop.add_reader(self._control, self._retire)
        leaving = loop.create_task(self._leave.wait())
        beating = None
        try:
            server = await _unless(leaving, self._start())
            if server is None:
                return 0
            self._control.send(READY)
            if self._settings.worker_timeout:
                beating = loop.create_task(self._beat())
            if self._settings.announce:
                announce(self._app, server)
            # From here on: what the first start loads takes its time, and keeps nobody waiting.
            with self._watch_loop():
                await _unless(leaving, server.wait_closed())
            await self._drain()
            await server.close()
        except Exception as error:  # noqa: BLE001  # of the set-up or the teardown
            tell(error)
            return EXIT_FAILURE
        finally:
            loop.remove_reader(self._control)
            leaving.cancel()
            if beating is not None:
                beating.cancel()
        return 0

    def _watch_loop(self) -> contextlib.AbstractContextManager[Any]:
        seconds = self._settings.watch_loop
        return LoopWatchdog(seconds) if seconds else contextlib.nullcontext()

    async def _beat(self) -> None:
        """Tell again and again that the event loop runs."""
        self._control.setblocking(False)
        while True:
            with contextlib.suppress(OSError):  # nobody listens, or they have not for long
                self._control.send(HEARTBEAT)
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _stop(self) -> None:
        """End with all the others: let those know that send requests here."""
        self._seconds_to_drain = self._settings.drain
        self._leave.set()

    def _retire(self) -> None:
        """End while others go on, or the one has ended that looks after all: the other end tells.

        Nothing is ever sent to here, so that there is something to read once it is closed.
        """
        asyncio.get_running_loop().remove_reader(self._control)
        self._leave.set()

    async def _start(self) -> Server:
        settings = self._settings
        check_certificate(settings.ssl_certfile, settings.ssl_keyfile)  # it may be a new one
        options: dict[str, Any] = {
            "early": settings.early,
            "linger": settings.linger,
            "timeout_graceful_shutdown": settings.graceful_timeout,
            "timeout_keep_alive": settings.keep_alive,
            "read_timeout": settings.read_timeout,
            "write_timeout": settings.write_timeout,
            "min_rate": settings.min_rate,
            "proxy_headers": settings.proxy_headers,
            "forwarded_allow_ips": settings.forwarded_allow_ips,
            "ssl_certfile": settings.ssl_certfile,
            "ssl_keyfile": settings.ssl_keyfile,
        }
        try:
            return await self._app.serve(self._sock, **options)
        except Exception as error:
            if not settings.development:
                raise
            self._app = _failing(error)
            return await self._app.serve(self._sock)

    async def _drain(self) -> None:
        if self._seconds_to_drain:
            self._app.announce_shutdown()
            await asyncio.sleep(self._seconds_to_drain)


async def _unless(leaving: asyncio.Task[Any], waited: Awaitable[Any]) -> Any:
    """Return what something comes to; None where ``leaving`` comes first: it is cancelled then."""
    task = asyncio.ensure_future(waited)
    await asyncio.wait({leaving, task}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return None
    return task.result()
