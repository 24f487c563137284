"""`alula dev` and `alula serve`: an application as a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alula._cli.serving.settings import WorkerSettings
from alula._cli.terminal import reporting_errors

__all__ = ["dev", "serve"]

Target = Annotated[
    str, typer.Argument(metavar="[MODULE:NAME]", help="The application.", show_default=True)
]
Host = Annotated[
    str, typer.Option(help="The address to listen on; 0.0.0.0 for every network of this machine.")
]
Port = Annotated[
    int, typer.Option("--port", "-p", envvar="PORT", min=0, max=65535, help="0 for any free one.")
]
Workers = Annotated[
    int,
    typer.Option("--workers", "-w", envvar="WEB_CONCURRENCY", min=1, help="How many processes."),
]
UnixSocket = Annotated[
    str | None,
    typer.Option("--uds", metavar="PATH", help="A Unix socket to listen on, instead of a port."),
]
GracefulTimeout = Annotated[
    float,
    typer.Option(min=0, help="Seconds that requests may still take once the server stops."),
]
KeepAlive = Annotated[
    int,
    typer.Option(
        min=1, help="Seconds for which idle connections are kept; longer than a proxy keeps them."
    ),
]
ReadTimeout = Annotated[
    float,
    typer.Option(
        min=0.1, help="Seconds in which a head, or the next part of a body, has to arrive."
    ),
]
WriteTimeout = Annotated[
    float,
    typer.Option(min=0.1, help="Seconds in which a client has to read some of a response."),
]
MinRate = Annotated[
    float,
    typer.Option(min=1, help="Bytes per second that a client has to send or read then."),
]
WorkerTimeout = Annotated[
    float,
    typer.Option(min=0, help="Seconds after which a worker that hangs is replaced; 0 for never."),
]
Drain = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds in which readiness is a 503 and all is served, before it stops."
    ),
]
AccessLog = Annotated[bool, typer.Option(help="Whether each request is a line in the log.")]
ProxyHeaders = Annotated[
    bool, typer.Option("--proxy-headers", help="Believe X-Forwarded-For and -Proto of proxies.")
]
AllowedProxies = Annotated[
    str,
    typer.Option(
        "--forwarded-allow-ips",
        envvar="FORWARDED_ALLOW_IPS",
        help="Addresses of those proxies, with commas; * for all, as behind a Unix socket.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--ssl-certfile",
        exists=True,
        dir_okay=False,
        metavar="PATH",
        help="A certificate in PEM, with those in between: serve HTTPS with it.",
    ),
]
PrivateKey = Annotated[
    Path | None,
    typer.Option(
        "--ssl-keyfile",
        exists=True,
        dir_okay=False,
        metavar="PATH",
        help="Its private key, where it is in a file of its own.",
    ),
]
WatchLoop = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Log what holds the event loop for longer, with its name; 0 for never.",
    ),
]
Watched = Annotated[
    list[Path] | None,
    typer.Option(
        "--watch", exists=True, metavar="PATH", help="A further folder or file to watch; repeat it."
    ),
]


def dev(
    application: Target = "app:app",
    host: Host = "127.0.0.1",
    port: Port = 3030,
    watch: Watched = None,
    access_log: AccessLog = True,
    watch_loop: WatchLoop = 0.2,
) -> None:
    """Run an application while you write it: starts anew when a file changes, shows errors."""
    from alula._cli.serving.running import develop  # noqa: PLC0415  # the server is slow to load

    settings = WorkerSettings(
        application,
        access_log=access_log,
        watch_loop=watch_loop,
        development=True,
        announce=True,
        graceful_timeout=2,
    )
    with reporting_errors():
        raise typer.Exit(develop(settings, host, port, watch or []))


def serve(
    application: Target = "app:app",
    host: Host = "127.0.0.1",
    port: Port = 3030,
    workers: Workers = 1,
    uds: UnixSocket = None,
    graceful_timeout: GracefulTimeout = 30,
    drain: Drain = 0,
    keep_alive: KeepAlive = 75,
    read_timeout: ReadTimeout = 20,
    write_timeout: WriteTimeout = 20,
    min_rate: MinRate = 500,
    worker_timeout: WorkerTimeout = 30,
    access_log: AccessLog = True,
    watch_loop: WatchLoop = 0,
    proxy_headers: ProxyHeaders = False,
    forwarded_allow_ips: AllowedProxies = "127.0.0.1",
    ssl_certfile: Certificate = None,
    ssl_keyfile: PrivateKey = None,
) -> None:
    """Run an application in production.

    SIGTERM ends it once its requests have ended; SIGHUP replaces the workers one after another.
    """
    from alula._cli.serving.running import produce  # noqa: PLC0415  # as above

    settings = WorkerSettings(
        application,
        drain=drain,
        graceful_timeout=graceful_timeout,
        keep_alive=keep_alive,
        read_timeout=read_timeout,
        write_timeout=write_timeout,
        min_rate=min_rate,
        worker_timeout=worker_timeout,
        access_log=access_log,
        watch_loop=watch_loop,
        proxy_headers=proxy_headers,
        forwarded_allow_ips=forwarded_allow_ips,
        linger=1,
        ssl_certfile=_text(ssl_certfile),
        ssl_keyfile=_text(ssl_keyfile),
    )
    with reporting_errors():
        raise typer.Exit(produce(settings, workers, host=host, port=port, path=uds))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
