"""uvicorn's server with our sockets, without signal handlers, and with a graceful shutdown.

This module and `alula.express._uvicorn_protocol` depend on private parts of uvicorn.
`check_uvicorn` tries them out at import, and importing `alula.express` fails if something is
missing: without the guards, slow and hostile clients would have no limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Self

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from alula.errors import Unavailable
from alula.express._connection_limits import KEEP_ALIVE_SECONDS, ConnectionLimits
from alula.express._uvicorn_protocol import JoinedWrites, guarded, guards, unsupported_uvicorn

__all__ = ["UvicornServer", "check_uvicorn", "fastest_loop", "uvicorn_server"]

GRACE_SECONDS: Final = 30  # how long requests may still take once the server closes
UNWIND_SECONDS: Final = 5  # how long those that were cancelled then may take to clean up

_POLL_SECONDS = 0.02
_TICK_SECONDS = 1

_log = logging.getLogger("alula.serve")


class UvicornServer(uvicorn.Server):
    """uvicorn's server, which leaves signals to the program it runs in and stops at once.

    Args:
        config: Its options.
        late_request_seconds: How long after `stop` idle connections are still read: a request may
            be on its way on them. Its response closes the connection.
    """

    def __init__(self, config: uvicorn.Config, late_request_seconds: float) -> None:
        super().__init__(config)
        self.lifespan = config.lifespan_class(config)
        self._late_request_seconds = late_request_seconds
        self._stopping = asyncio.Event()
        self._has_descriptors = True

    def stop(self) -> None:
        """Begin to stop; `run_until_stopped` does the rest."""
        self.should_exit = True
        self._stopping.set()

    async def run_until_stopped(self, sock: socket.socket) -> None:
        """Serve until `stop`, then serve late requests, end what is under way and close all."""
        state = self.server_state
        try:
            await self.main_loop()
            if self._late_request_seconds:
                # So clients and proxies send nothing more on these connections.
                state.default_headers = [*state.default_headers, (b"connection", b"close")]
                for connection in state.connections:
                    cycle: Any = getattr(connection, "cycle", None)
                    if cycle is not None and not cycle.response_complete:
                        cycle.keep_alive = False
                await self._accept_backlog(sock)
                clock = asyncio.get_running_loop().time
                end = clock() + self._late_request_seconds
                while state.connections and clock() < end:  # noqa: ASYNC110  # uvicorn has no event
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await self.shutdown([sock])
            # uvicorn has cancelled the requests that took too long, and does not wait for them.
            tasks = {task for task in state.tasks if not task.done()}
            if tasks:
                await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
            for connection in tuple(state.connections):
                connection.transport.abort()

    async def main_loop(self) -> None:
        """Wait until `stop`, with uvicorn's work of every second: the header Date, its limits."""
        while not await self.on_tick(0):
            had, self._has_descriptors = self._has_descriptors, _has_descriptors()
            # The event loop drops connections silently when there are no descriptors left.
            if had and not self._has_descriptors:
                _log.error(
                    "no file descriptors are left (%d connections): new ones are dropped; raise the"
                    " limit (ulimit -n, LimitNOFILE= of systemd) or start more workers",
                    len(self.server_state.connections),
                )
            elif self._has_descriptors and not had:
                _log.warning("there are file descriptors again; connections are accepted")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    async def _wait_tasks_to_complete(self) -> None:
        try:
            await super()._wait_tasks_to_complete()
        except asyncio.CancelledError:  # the time is up, and uvicorn is about to cancel requests
            stopping = Unavailable("The server is stopping, and the request took too long")
            for connection in tuple[Any, ...](self.server_state.connections):
                if hasattr(connection, "cut_short"):  # a WebSocket has none
                    connection.cut_short(stopping)
            raise

    async def _accept_backlog(self, sock: socket.socket) -> None:
        """Accept the connections in the socket's backlog, and stop listening.

        To their clients they are open, and requests may have been sent on them. There is no await
        between the last `accept` and the end of listening, so no connection is lost in between.
        """
        connections = []
        while True:
            try:
                connections.append(sock.accept()[0])
            except ConnectionAbortedError:
                continue
            except OSError:  # the backlog is empty
                break
        for server in self.servers:
            server.close()
        config: Any = self.config
        protocol = partial(
            config.http_protocol_class,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )

        async def read(connection: socket.socket) -> None:
            connection.setblocking(False)
            # A client may have gone already, or never complete the TLS handshake.
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().connect_accepted_socket(
                    protocol,
                    connection,
                    ssl=config.ssl,
                    ssl_handshake_timeout=self._late_request_seconds if config.ssl else None,
                )

        await asyncio.gather(*map(read, connections))


def _has_descriptors() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in {errno.EMFILE, errno.ENFILE}
    return True


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of the fastest event loop: uvloop if it is installed."""
    return uvicorn.Config("", log_config=None).get_loop_factory()


def uvicorn_server(
    app: ASGIApp, options: dict[str, Any], late_request_seconds: float = 0
) -> UvicornServer:
    """Return uvicorn's server for an ASGI application, with guards in its HTTP protocol.

    Args:
        app: The application.
        options: Those of `ConnectionLimits`, ``allow_unguarded_http``, and of ``uvicorn.Config``,
            such as ``ssl_certfile``.
        late_request_seconds: As in `UvicornServer`.

    Raises:
        ValueError: A limit is not a positive number.
        TypeError: An option does not exist, or ``http`` is a class that cannot be guarded.
    """
    names = [name for name in ConnectionLimits.__dataclass_fields__ if name in options]
    limits = ConnectionLimits(**{name: options.pop(name) for name in names})
    allow_unguarded = options.pop("allow_unguarded_http", False)
    settings: dict[str, Any] = {
        "lifespan": "off",  # the application runs its own, after the server has started
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Without a proxy that sets it, X-Forwarded-For is whatever a client sends.
        "proxy_headers": False,
        "timeout_graceful_shutdown": GRACE_SECONDS,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        **options,
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    config.http_protocol_class = guarded(
        config.http_protocol_class, limits, allow_unguarded=allow_unguarded
    )
    return UvicornServer(config, late_request_seconds)


# -- what is used of uvicorn -----------------------------------------------------------------------

_METHODS: Final = {
    "Server": {
        "startup": "self sockets",
        "main_loop": "self",
        "on_tick": "self counter",
        "shutdown": "self sockets",
        "_wait_tasks_to_complete": "self",
    },
    "HttpToolsProtocol": {
        "on_header": "self name value",
        "on_headers_complete": "self",
        "on_body": "self body",
    },
    "H11Protocol": {"handle_events": "self"},
}
"""Methods of uvicorn's classes that are called or overridden, with their parameters.

An override that uvicorn no longer calls would be a guard that never runs."""

_METHODS_OF_PROTOCOLS: Final = {
    "__init__": "self config server_state app_state _loop",
    "connection_made": "self transport",
    "connection_lost": "self exc",
    "data_received": "self data",
    "on_response_complete": "self",
    "send_400_response": "self msg",
}
"""As `_METHODS`, of each protocol."""

_ATTRIBUTES: Final = {
    "connections": "",
    "flow": "read_paused write_paused",
    "cycle": "scope transport body more_body keep_alive disconnected logger response_started"
    " response_complete",
    "scope": "",
    "server_state": "connections tasks default_headers",
    "timeout_keep_alive_task": "",
}
"""Attributes of each connection, and their attributes."""


def check_uvicorn() -> None:
    """Check that uvicorn has all that is used of it, and that the guards work in its protocols.

    Raises:
        ImportError: Something is missing; the text names it, and the versions that work.
    """
    try:
        _check_methods(uvicorn.Server, _METHODS["Server"])
        for protocol in guards():
            _check_methods(protocol, {**_METHODS[protocol.__name__], **_METHODS_OF_PROTOCOLS})
            _check_guard(protocol)
    except Exception as error:
        raise unsupported_uvicorn(error) from error


def _check_methods(owner: type, methods: Mapping[str, str]) -> None:
    for name, parameters in methods.items():
        method = getattr(owner, name, None)
        if method is None or method is getattr(asyncio.Protocol, name, None):
            raise LookupError(f"{owner.__name__} has no method {name}")
        actual = " ".join(inspect.signature(method).parameters)
        if actual != parameters:
            raise LookupError(f"{owner.__name__}.{name} takes ({actual}), not ({parameters})")


def _check_guard(protocol: type[asyncio.Protocol]) -> None:
    # Requests without a socket show whether uvicorn still calls the guards.
    probe, other = _Probe(protocol), _Probe(protocol)
    connection = probe.connection
    connection.data_received(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{")
    for name, inner in _ATTRIBUTES.items():
        for attribute in inner.split():
            if not hasattr(getattr(connection, name), attribute):
                raise LookupError(f"{protocol.__name__}.{name} has no attribute {attribute}")
    other.connection.data_received(b"this is not HTTP\r\n\r\n")
    guarded_parts = {
        "its connections": connection in connection.connections,
        "its timers": probe.timers == 1,
        "the head of a request": isinstance(connection.cycle.transport, JoinedWrites),
        "the body of a request": connection.pending_request() is connection.cycle,
        "what it refuses": b'"code":400' in other.written and other.is_closed,
    }
    for part, is_guarded in guarded_parts.items():
        if not is_guarded:
            raise LookupError(f"{protocol.__name__} does not show {part} to its guard")


class _Probe:
    """A connection without a socket; its event loop, tasks and transport are this object."""

    def __init__(self, protocol: type[asyncio.Protocol]) -> None:
        self.timers = 0
        self.written = b""
        self.is_closed = False
        settings: Any = {"ws": "none", "lifespan": "off", "log_config": None}
        config = uvicorn.Config(_Probe, http=protocol, proxy_headers=False, **settings)
        config.load()
        made: Any = guarded(protocol)
        self.connection: Any = made(config, ServerState(), {}, self)
        self.connection.logger = logging.Logger("silent", logging.CRITICAL)
        self.connection.connection_made(self)

    def call_later(self, *_: object) -> Self:
        self.timers += 1
        return self

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **_: object) -> Self:
        coroutine.close()
        return self

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True


check_uvicorn()
