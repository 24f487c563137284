"""`alula dev`: serves an application while it is written, and restarts it when a file changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alula._cli.application import ApplicationTarget
from alula._cli.commands.serve import AccessLog, Host, Port, WatchLoop
from alula._cli.terminal import reporting_errors

__all__ = ["dev"]

WatchedPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--watch",
        exists=True,
        metavar="PATH",
        help="A further file or folder to watch; can be repeated.",
    ),
]


def dev(
    application: ApplicationTarget = "app:app",
    host: Host = "127.0.0.1",
    port: Port = 3030,
    watch: WatchedPaths = None,
    access_log: AccessLog = True,
    watch_loop: WatchLoop = 0.2,
) -> None:
    """Run an application during development: restart on changes, show errors."""
    from alula._cli.serving import reloader, worker_process  # noqa: PLC0415  # slow to import

    settings = worker_process.WorkerSettings(
        application,
        access_log=access_log,
        watch_loop=watch_loop,
        development=True,
        announce=True,
        # A restart does not wait for long requests, such as event streams.
        graceful_timeout=2,
    )
    with reporting_errors():
        raise typer.Exit(reloader.serve_with_reload(settings, host, port, watch or []))
