"""Checks that uvicorn still has the private parts that are used of it, and calls the guards."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Self

import uvicorn
from uvicorn.server import ServerState

from alula._wire import MESSAGES_EXTENSION
from alula.express._uvicorn.protocol import guarded, guards, unsupported_uvicorn

__all__ = ["check_uvicorn", "check_websockets"]

_METHODS: Final = {
    "Server": {
        "startup": "self sockets",
        "main_loop": "self",
        "on_tick": "self counter",
        "shutdown": "self sockets",
        "_wait_tasks_to_complete": "self",
    },
    "HttpToolsProtocol": {
        "on_url": "self url",
        "on_header": "self name value",
        "on_headers_complete": "self",
        "on_body": "self body",
        "on_message_complete": "self",
        "handle_websocket_upgrade": "self",
        "_should_upgrade": "self",
        "_start_asgi_task": "self cycle app",
        "_unset_keepalive_if_required": "self",
    },
    "H11Protocol": {"handle_events": "self"},
    "WebSocketsSansIOProtocol": {
        "__init__": "self config server_state app_state _loop",
        "data_received": "self data",
        "send": "self message",
        "handle_connect": "self event",
        "on_task_complete": "self task",
        "connection_lost": "self exc",
    },
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
    "scope": "",
    "server_state": "connections tasks default_headers total_requests",
    "timeout_keep_alive_task": "",
}
"""Attributes of each connection, and their attributes."""

_ATTRIBUTES_OF_PROTOCOLS: Final = {
    "HttpToolsProtocol": {
        "config": "reset_contextvars",
        **dict.fromkeys(("app", "app_state", "asgi_version", "client", "headers", "parser"), ""),
        **dict.fromkeys(("pipeline", "scheme", "server"), ""),
        **dict.fromkeys(("limit_concurrency", "tasks", "timeout_keep_alive", "logger"), ""),
        **dict.fromkeys(("access_log", "access_logger", "root_path"), ""),
    },
    "H11Protocol": {
        "cycle": "scope transport body more_body keep_alive disconnected logger response_started"
        " response_complete message_event",
        "headers": "",
    },
}
"""As `_ATTRIBUTES`, of each protocol."""

_ATTRIBUTES_OF_WEBSOCKETS: Final = (
    "handshake_initiated",
    "handshake_complete",
    "close_sent",
    "disconnected",
    "queue",
    "read_paused",
    "writable",
    "conn",
)

_HANDSHAKE: Final = (
    b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


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


def check_websockets(protocol: type[asyncio.Protocol], theirs: type[asyncio.Protocol]) -> None:
    """Check the same for websockets; only where their library is installed.

    Args:
        protocol: Our class.
        theirs: uvicorn's, from which it derives.

    Raises:
        ImportError: Something is missing, as in `check_uvicorn`.
    """
    try:
        _check_methods(theirs, _METHODS["WebSocketsSansIOProtocol"])
        _check_websocket_guard(protocol, theirs)
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
    attributes = {**_ATTRIBUTES, **_ATTRIBUTES_OF_PROTOCOLS[protocol.__name__]}
    for name, inner in attributes.items():
        if not hasattr(connection, name):
            raise LookupError(f"{protocol.__name__} has no attribute {name}")
        for attribute in inner.split():
            if not hasattr(getattr(connection, name), attribute):
                raise LookupError(f"{protocol.__name__}.{name} has no attribute {attribute}")
    other.connection.data_received(b"this is not HTTP\r\n\r\n")
    guarded_parts = {
        "its connections": connection in connection.connections,
        "its timers": probe.timers == 1,
        "the head of a request": connection.guards_response(),
        "the body of a request": connection.pending_request() is connection.cycle,
        "what it refuses": b'"code":400' in other.written and other.has_end,
    }
    for part, is_guarded in guarded_parts.items():
        if not is_guarded:
            raise LookupError(f"{protocol.__name__} does not show {part} to its guard")


def _check_websocket_guard(
    protocol: type[asyncio.Protocol], theirs: type[asyncio.Protocol]
) -> None:
    probe = _Probe(theirs, protocol, limit_concurrency=0)
    connection = probe.connection
    for attribute in _ATTRIBUTES_OF_WEBSOCKETS:
        if not hasattr(connection, attribute):
            raise LookupError(f"{theirs.__name__} has no attribute {attribute}")
    # It would log that a connection was refused, at each start of a server.
    connection.conn.logger = logging.Logger("of a probe", logging.CRITICAL)
    connection.data_received(_HANDSHAKE)
    if b" 503 " not in probe.written or not probe.is_closed:
        raise LookupError(f"{theirs.__name__} does not show new connections to its guard")
    connection = _Probe(theirs, protocol).connection
    connection.data_received(_HANDSHAKE)
    if connection.scope["extensions"].get(MESSAGES_EXTENSION) is not connection:
        raise LookupError(f"{theirs.__name__} has no scope that names extensions")


class _Probe:
    """A connection without a socket; its event loop, tasks and transport are this object."""

    def __init__(
        self,
        protocol: type[asyncio.Protocol],
        made: Any = None,
        limit_concurrency: int | None = None,
    ) -> None:
        self.timers = 0
        self.written = b""
        self.is_closed = self.has_end = False
        settings: Any = {"ws": "none", "lifespan": "off", "log_config": None}
        if made is None:
            settings["http"] = protocol
        settings["limit_concurrency"] = limit_concurrency
        config = uvicorn.Config(_Probe, proxy_headers=False, **settings)
        config.load()
        make: Any = made or guarded(protocol)
        self.connection: Any = make(config, ServerState(), {}, self)
        self.connection.logger = logging.Logger("silent", logging.CRITICAL)
        self.connection.connection_made(self)

    def call_later(self, *_: object, **__: object) -> Self:
        self.timers += 1
        return self

    def get_task_factory(self) -> object:
        return self.create_task  # so that the loop is asked for each task

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **_: object) -> Self:
        coroutine.close()
        return self

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None

    def time(self) -> float:
        return 0.0

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_end = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True
