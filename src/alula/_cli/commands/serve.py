"""`alula serve`: serves an application in production, with one or several worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alula._cli.application import ApplicationTarget
from alula._cli.terminal import reporting_errors

__all__ = ["AccessLog", "Host", "Port", "WatchLoop", "serve"]

Host = Annotated[
    str, typer.Option(help="The address to listen on; 0.0.0.0 for every network interface.")
]
# Hosting platforms set PORT; WEB_CONCURRENCY and FORWARDED_ALLOW_IPS are those of uvicorn.
Port = Annotated[
    int,
    typer.Option(
        "--port", "-p", envvar="PORT", min=0, max=65535, help="The port; 0 for any free one."
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", "-w", envvar="WEB_CONCURRENCY", min=1, help="The number of worker processes."
    ),
]
UnixSocket = Annotated[
    str | None,
    typer.Option("--uds", metavar="PATH", help="A Unix socket to listen on instead of a port."),
]
GracefulTimeout = Annotated[
    float,
    typer.Option(min=0, help="Seconds that running requests may take once the server stops."),
]
Drain = Annotated[
    float,
    typer.Option(
        min=0,
        help="Seconds during which readiness answers 503 and requests are still served, before"
        " the server stops.",
    ),
]
# The default is above the 60 seconds of nginx and of the load balancers of AWS: if the server
# closes first, the proxy may send a request into the closing connection and responds with 502.
KeepAlive = Annotated[
    int,
    typer.Option(
        min=1, help="Seconds to keep idle connections open; longer than a proxy in front does."
    ),
]
ReadTimeout = Annotated[
    float,
    typer.Option(
        min=0.1, help="Seconds in which the head, or the next part of the body, has to arrive."
    ),
]
WriteTimeout = Annotated[
    float,
    typer.Option(min=0.1, help="Seconds in which a client has to read some of a response."),
]
MinRate = Annotated[
    float,
    typer.Option(min=1, help="Bytes per second that a client has to send or read from then on."),
]
MaxUnreadBytes = Annotated[
    int,
    typer.Option(min=1, help="Bytes of responses that may wait for slow clients, in one worker."),
]
WorkerTimeout = Annotated[
    float,
    typer.Option(
        min=0, help="Seconds after which a worker that hangs is replaced; 0 to disable this."
    ),
]
AccessLog = Annotated[bool, typer.Option(help="Whether to log every request.")]
WatchLoop = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Log code that blocks the event loop for longer than this; 0 to disable it.",
    ),
]
ProxyHeaders = Annotated[
    bool,
    typer.Option("--proxy-headers", help="Trust X-Forwarded-For and X-Forwarded-Proto of proxies."),
]
TrustedProxies = Annotated[
    str,
    typer.Option(
        "--forwarded-allow-ips",
        envvar="FORWARDED_ALLOW_IPS",
        help="The addresses of trusted proxies, separated by commas; * for all, as with --uds.",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--ssl-certfile",
        exists=True,
        dir_okay=False,
        metavar="PATH",
        help="A certificate chain in PEM format: serve HTTPS.",
    ),
]
PrivateKey = Annotated[
    Path | None,
    typer.Option(
        "--ssl-keyfile",
        exists=True,
        dir_okay=False,
        metavar="PATH",
        help="The private key, if it is not in the file of the certificate.",
    ),
]


def serve(
    application: ApplicationTarget = "app:app",
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
    max_unread_bytes: MaxUnreadBytes = 256 * 1024 * 1024,
    worker_timeout: WorkerTimeout = 30,
    access_log: AccessLog = True,
    watch_loop: WatchLoop = 0,
    proxy_headers: ProxyHeaders = False,
    forwarded_allow_ips: TrustedProxies = "127.0.0.1",
    ssl_certfile: Certificate = None,
    ssl_keyfile: PrivateKey = None,
) -> None:
    """Run an application in production.

    SIGTERM stops it after the running requests; SIGHUP replaces the workers one after another.
    """
    from alula._cli.serving import supervisor, worker_process  # noqa: PLC0415  # slow to import

    settings = worker_process.WorkerSettings(
        application,
        workers=workers,
        drain=drain,
        graceful_timeout=graceful_timeout,
        keep_alive=keep_alive,
        read_timeout=read_timeout,
        write_timeout=write_timeout,
        min_rate=min_rate,
        max_unread_bytes=max_unread_bytes,
        worker_timeout=worker_timeout,
        access_log=access_log,
        watch_loop=watch_loop,
        proxy_headers=proxy_headers,
        forwarded_allow_ips=forwarded_allow_ips,
        # A client may reuse a connection just before it is closed: it gets a response, not a reset.
        late_request_seconds=1,
        ssl_certfile=str(ssl_certfile) if ssl_certfile else None,
        ssl_keyfile=str(ssl_keyfile) if ssl_keyfile else None,
    )
    with reporting_errors():
        raise typer.Exit(supervisor.serve_with_workers(settings, host=host, port=port, path=uds))
