"""What a worker is told when it is started."""

from __future__ import annotations

import dataclasses
import json
from typing import Self

__all__ = ["HEARTBEAT", "HEARTBEAT_SECONDS", "READY", "WorkerSettings"]

READY = b"1"
"""What a worker sends once it takes requests."""

HEARTBEAT = b"."
"""What a worker sends from then on, as long as its event loop runs."""

HEARTBEAT_SECONDS = 1.0
"""How often."""


@dataclasses.dataclass(frozen=True)
class WorkerSettings:
    """The settings of one worker, which travel to it as text.

    Attributes:
        target: The application, as ``module:name``.
        socket: The descriptor of the socket to serve on.
        control: The descriptor of the connection to the process that looks after the worker.
        early: Whether to take requests before the application is set up; they wait then.
        drain: Seconds in which readiness is denied, and all served, before the worker stops.
        linger: Seconds in which open connections are still read once the worker stops.
        graceful_timeout: Seconds that requests may take once the worker stops.
        keep_alive: Seconds for which idle connections are kept.
        read_timeout: As in `alula.express._connection_limits.ConnectionLimits`.
        write_timeout: As there.
        min_rate: As there.
        worker_timeout: Seconds after which a worker that hangs is replaced; 0 for never.
        access_log: Whether each request is a line in the log.
        proxy_headers: Whether to believe what a proxy says about clients.
        forwarded_allow_ips: The addresses of proxies that are believed.
        ssl_certfile: A certificate to serve HTTPS with, None for HTTP.
        ssl_keyfile: Its private key, None where both are in one file.
        development: Whether to show errors in answers, and to live on when the start fails.
        announce: Whether to print what there is, once it has started.
        workers: How many workers serve the application.
        watch_loop: Seconds from which on it is logged what holds the event loop, 0 for never.
    """

    target: str
    socket: int = -1
    control: int = -1
    early: bool = False
    drain: float = 0
    linger: float = 0
    graceful_timeout: float = 30
    keep_alive: int = 75
    read_timeout: float = 20
    write_timeout: float = 20
    min_rate: float = 500
    worker_timeout: float = 0
    access_log: bool = True
    proxy_headers: bool = False
    forwarded_allow_ips: str = "127.0.0.1"
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    development: bool = False
    announce: bool = False
    workers: int = 1
    watch_loop: float = 0

    def to_text(self) -> str:
        """Return the settings as text."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the settings that a text has."""
        return cls(**json.loads(text))

    def changed(self, **values: object) -> Self:
        """Return settings that differ in some values."""
        return dataclasses.replace(self, **values)  # type: ignore[arg-type]  # of any field
