"""A worker: one process that imports the application and serves it on an inherited socket."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import typer

from alula._cli.application import load_object
from alula._cli.service_listing import list_services, process_local_services
from alula._cli.serving.listen import check_certificate
from alula._cli.serving.missing_migrations import warn_if_behind, warn_if_tables_lack_columns
from alula._cli.serving.worker_process import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    PROCEED,
    READY,
    SIGNALS_OF_PARENT,
    WorkerSettings,
)
from alula._cli.terminal import EXIT_FAILURE, UsageError, format_error, print_error, style
from alula._sockets import socket_from_descriptor
from alula.errors import GeneralError
from alula.express import (
    ExpressApplication,
    Server,
    WebApplication,
    access_log,
    error_handler,
    express,
    request_id,
)
from alula.express._http1 import fastest_loop
from alula.express._server import freeze_heap
from alula.logs import configure_logging
from alula.types import EVENT_OF_METHOD
from alula.watchdog import LoopWatchdog

__all__ = ["announce", "load_web_application", "main", "serve_as_worker"]

T = TypeVar("T")

_DOCS_SETTING: Final = "openapi docs"
"""The setting in which `alula.openapi` stores the path of its page."""

_PARENT_FIRST_SECONDS: Final = 0.1
"""How much longer a worker drains than the parent, so that nobody connects when it ends."""

_MAX_MODULES_BYTES: Final = 1_000_000

_log = logging.getLogger("alula.serve")


def main() -> None:
    """Run as a process; the only argument of the command line is the text of the settings."""
    faulthandler.enable()  # the parent sends SIGABRT to a worker that hangs: it writes its stack
    raise SystemExit(serve_as_worker(WorkerSettings.from_text(sys.argv[1])))


def serve_as_worker(settings: WorkerSettings) -> int:
    """Serve until SIGTERM, or until the parent closes the control connection or ends.

    Returns:
        The exit code. If the application does not start, the reason is printed.
    """
    # The terminal sends SIGINT, and users send SIGHUP, to all processes of the group; the parent
    # decides what they mean for its workers.
    for number in SIGNALS_OF_PARENT:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_PARENT)
    levels = {} if settings.access_log else {"alula.access": logging.WARNING}
    configure_logging(levels={"uvicorn": logging.WARNING, **levels})
    sock, control = socket_from_descriptor(settings.socket), socket.socket(fileno=settings.control)
    with control, contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        if settings.is_spare and not _wait_as_spare(settings, control):
            return 0
        if settings.development:
            # Python compares the time of compiled files in whole seconds: two changes within a
            # second that keep the size would run the old code. What a spare worker imports is
            # compiled once.
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        try:
            app = load_web_application(settings)
        except Exception as error:  # noqa: BLE001  # of the user's code
            if not settings.development:
                _print_start_error(error)
                return error.exit_code if isinstance(error, UsageError) else EXIT_FAILURE
            app = _error_application(error)
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            return runner.run(_Worker(app, settings, sock, control).run())


def load_web_application(settings: WorkerSettings) -> WebApplication:
    """Import the application, and add the access log if the settings ask for it.

    Raises:
        UsageError: The application does not exist, or cannot be served.
        Exception: Whatever its code raises.
    """
    app = load_object(settings.target)
    if not isinstance(app, WebApplication):
        raise UsageError(
            f"{settings.target!r} is {app!r}, not a web application; serve the result of"
            " express(): web = express(app)"
        )
    web: WebApplication = app
    if settings.access_log:
        # Outermost, so that requests which other middleware refuses are logged, too.
        app.prepend_middleware(request_id(), access_log())
    # Only the first of several workers, which starts early, prints the warning.
    if (
        settings.workers > 1
        and settings.accept_during_setup
        and isinstance(app, ExpressApplication)
    ):
        names = process_local_services(app.services)
        if names:
            _log.warning(
                "%d workers serve services whose records are in the memory of one process: %s."
                " Each worker has its own records; keep them in a database, or use --workers 1",
                settings.workers,
                ", ".join(names),
            )
    return web


def _write_loaded_modules(descriptor: int) -> None:
    """Write what `_wait_as_spare` reads."""
    names = [name for name in sys.modules if name.partition(".")[0] == "alula"]
    with contextlib.suppress(OSError):  # without the list, the next start takes longer
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, "\n".join(names).encode(), 0)


def _wait_as_spare(settings: WorkerSettings, control: socket.socket) -> bool:
    """Import what the worker before has loaded of Alula; return whether it is to proceed."""
    modules = b""
    with contextlib.suppress(OSError):  # without the list, the start takes longer
        modules = os.pread(settings.modules, _MAX_MODULES_BYTES, 0)
    # If the application needs something that fails here, its own start shows the error.
    for name in modules.decode().split():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        if "alula.authentication" in sys.modules:
            from alula.authentication._passwords import (  # noqa: PLC0415  # it needs argon2
                default_passwords,
            )

            # The setup would wait for it: two hashes that take 64 MiB and all cores.
            asyncio.run(default_passwords().prepare())
    return control.recv(len(PROCEED)) == PROCEED


def _print_start_error(error: Exception) -> str:
    """Print why the application does not start, and return that text."""
    if isinstance(error, UsageError):
        print_error(error.message)
        return error.message
    text = format_error(error)
    typer.echo(text, err=True)
    return text


def _error_application(error: Exception) -> WebApplication:
    """Print why the application does not start, and return one that responds with the reason."""
    text = _print_start_error(error)
    print_error("it starts again when a file changes")

    def fail(_req: object, _res: object, _next: object) -> NoReturn:
        raise GeneralError(text)

    app = express()
    app.debug = True  # otherwise the response would leave the text out
    return app.use(fail, error_handler(logger=False))


def announce(app: WebApplication, server: Server) -> None:
    """Print the URL of the application, its services and the URL of its documentation."""
    # Without services, such as the application that shows why another one does not start.
    if not isinstance(app, ExpressApplication) or not app.services:
        typer.echo(f"  {server.url}")
        return
    services = list_services(app.services)
    rows = {f"/{each.path}": ", ".join(each.open) for each in services if each.open}
    rows |= {place.path: place.title for place in app.channel_registry.servers}
    width = max(map(len, rows), default=0)
    lines = [f"    {path:<{width}}  {style(text, dim=True)}" for path, text in rows.items()]
    silent = [
        path
        for path, handle in app.services.items()
        if not (handle.publishers or handle.secret_events)
        and not EVENT_OF_METHOD.keys().isdisjoint(handle.methods)
    ]
    # Without any publisher, the log has said so.
    has_publishers = any(handle.publishers for handle in app.services.values())
    if silent and has_publishers and not {"socketio", "sse"}.isdisjoint(app.transports):
        text = f"without a publisher, so nobody gets their events: {', '.join(silent)}"
        lines += ["", f"  {style(text, dim=True)}"]
    docs_path = app.settings.get(_DOCS_SETTING)
    if docs_path:
        lines += ["", f"  Documentation: {style(server.url + docs_path, fg='cyan')}"]
    url = style(server.url, fg="green", bold=True)
    typer.echo("\n".join(["", f"  {url}", "", *lines, ""]))


class _Worker:
    """One run of an application, from its setup to its teardown."""

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
        self._stopped = asyncio.Event()
        self._drain_seconds = 0.0

    async def run(self) -> int:
        """Serve until the worker is stopped; return the exit code."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            # All workers stop: load balancers have to learn from readiness to go elsewhere.
            self._drain_seconds = self._settings.drain
            self._stopped.set()

        def retire() -> None:
            # The parent never sends anything, so the connection is readable once it is closed: to
            # replace this worker, or because the parent has died.
            loop.remove_reader(self._control)
            self._stopped.set()

        async def send_heartbeats() -> None:
            # A full buffer must not block the event loop whose life the heartbeats show.
            self._control.setblocking(False)
            while True:
                with contextlib.suppress(OSError):
                    self._control.send(HEARTBEAT)
                await asyncio.sleep(HEARTBEAT_SECONDS)

        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_reader(self._control, retire)
        stopped = loop.create_task(self._stopped.wait())
        heartbeat = None
        try:
            server = await _unless(stopped, self._start_server())
            if server is None:
                return 0
            self._control.send(READY)
            await self._tell_about(server)
            if self._settings.worker_timeout:
                heartbeat = loop.create_task(send_heartbeats())
            freeze_heap()
            # The watchdog starts here: what the setup imports blocks the loop, but no request.
            limit = self._settings.watch_loop
            with LoopWatchdog(limit) if limit else contextlib.nullcontext():
                await _unless(stopped, server.wait_closed())
            if self._drain_seconds:
                self._app.announce_shutdown()
                await asyncio.sleep(self._drain_seconds + _PARENT_FIRST_SECONDS)
            await server.close()
        except Exception as error:  # noqa: BLE001  # of the setup or the teardown
            _print_start_error(error)
            return EXIT_FAILURE
        finally:
            loop.remove_reader(self._control)
            stopped.cancel()
            if heartbeat is not None:
                heartbeat.cancel()
        return 0

    async def _tell_about(self, server: Server) -> None:
        """Say what somebody who has started the application should know."""
        settings = self._settings
        if settings.development:
            await warn_if_tables_lack_columns(self._app)
        elif settings.workers == 1 or settings.accept_during_setup:
            await warn_if_behind(self._app, Path.cwd() / "migrations")
        if settings.announce:
            announce(self._app, server)

    async def _start_server(self) -> Server:
        settings = self._settings
        # Again, although the parent has checked it: SIGHUP may bring a new certificate.
        check_certificate(settings.ssl_certfile, settings.ssl_keyfile)
        options: dict[str, Any] = {
            "accept_during_setup": settings.accept_during_setup,
            "late_request_seconds": settings.late_request_seconds,
            "timeout_graceful_shutdown": settings.graceful_timeout,
            "timeout_keep_alive": settings.keep_alive,
            "read_timeout": settings.read_timeout,
            "write_timeout": settings.write_timeout,
            "min_rate": settings.min_rate,
            "max_unread_bytes": settings.max_unread_bytes,
            "proxy_headers": settings.proxy_headers,
            "forwarded_allow_ips": settings.forwarded_allow_ips,
            "ssl_certfile": settings.ssl_certfile,
            "ssl_keyfile": settings.ssl_keyfile,
        }
        try:
            server = await self._app.serve(self._sock, **options)
        except Exception as error:
            if not settings.development:
                raise
            self._app = _error_application(error)
            server = await self._app.serve(self._sock)
        if settings.modules >= 0:
            _write_loaded_modules(settings.modules)
        return server


async def _unless(stopped: asyncio.Task[Any], awaitable: Awaitable[T]) -> T | None:
    """Return the result of an awaitable; cancel it and return None if ``stopped`` is first."""
    task = asyncio.ensure_future(awaitable)
    await asyncio.wait({stopped, task}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return None
    return task.result()
