"""Checks that uvicorn still has the private parts that are used of it, and calls the guards."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Self

import uvicorn
from uvicorn.server import ServerState

from alula.express._uvicorn.protocol import JoinedWrites, guarded, guards, unsupported_uvicorn

__all__ = ["check_uvicorn"]

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
