"""The plugin `socketio`: services over socket.io, as the clients of FeathersJS use it."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable, Collection
from inspect import iscoroutinefunction
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from alula._app import App
from alula._channels import EventServer
from alula._stream_limits import StreamLimits
from alula._user_code import explain_twin, name_of, unfit_signature
from alula.realtime._asgi import Admit, SocketIOApplication
from alula.realtime._bus import Bus, connect_bus
from alula.realtime._engine import POLLING, WEBSOCKET, Engine, EngineOptions, Timer, check_number
from alula.realtime._handover import Handover, name_sessions
from alula.realtime._handshake import Origins
from alula.realtime._limits import CallLimits
from alula.realtime._recovery import RecoverOptions
from alula.realtime._sockets import ConnectionMiddleware, PacketHandler, SocketOptions, SocketServer

if TYPE_CHECKING:
    from alula.express import ExpressApplication

__all__ = ["SocketIO", "socketio"]

RECOVER_SECONDS = 120.0
CALL_BYTES_PER_MESSAGE = 16
"""The calls of one client that are under way may have as many bytes as so many large messages."""


class _LoopScheduler:
    """The clock of the running event loop."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback, *args)


class SocketIO:
    """The socket.io transport; `socketio` makes it.

    Args:
        path: Where it is served.
        engine: Times and limits of sessions.
        sockets: Limits of each client.
        origins: The pages that may connect.
        admit: Decides on handshakes.
        bus: Shares events with other processes.

    Raises:
        TypeError: The path is not a string, or the bus is not a `Bus`.
        ValueError: The path is not below ``/``.
    """

    def __init__(
        self,
        path: str,
        engine: EngineOptions,
        sockets: SocketOptions,
        origins: Origins,
        admit: Admit | None,
        bus: Bus | None,
    ) -> None:
        if not isinstance(path, str):
            raise TypeError(f"path is {path!r}; write app.configure(socketio()), with brackets")
        if not path.startswith("/") or not path.strip("/"):
            raise ValueError(
                f"socketio(path={path!r}): a path starts with a slash and has a name, such as"
                ' "/socket.io/"; all requests below it are the transport\'s'
            )
        if bus is not None and not isinstance(bus, Bus):
            raise TypeError(f"socketio(bus={bus!r}): a bus is an object, such as RedisBus(url)")
        self._path = path
        self._engine = engine
        self._sockets = sockets
        self._origins = origins
        self._admit = admit
        self._bus = bus
        self._middleware: list[ConnectionMiddleware] = []

    def __repr__(self) -> str:
        return f"socketio(path={self._path!r})"

    def use(self, middleware: ConnectionMiddleware) -> ConnectionMiddleware:
        """Register middleware that runs for each new connection; also as a decorator.

        It runs after the credentials of the handshake were checked, and before the event
        ``connection``. It can set attributes of the connection, which are also in the params of its
        calls. An exception refuses the connection. The client gets the message and data of errors
        of `alula.errors` with its event ``connect_error``.

        Examples:
            >>> from alula.realtime import socketio
            >>> transport = socketio()
            >>> @transport.use
            ... async def set_tenant(connection, handshake, next):
            ...     connection.tenant = handshake.query.get("tenant")
            ...     await next()

        Args:
            middleware: ``async (connection, handshake, next)``.

        Raises:
            TypeError: It is not such a function.
        """
        if not callable(middleware):
            raise TypeError(f"transport.use({middleware!r}): middleware is a function")
        signature = unfit_signature(middleware, "connection", "handshake", "next")
        if signature is not None:
            raise TypeError(
                f"the middleware {name_of(middleware)} takes {signature}; expected"
                " (connection, handshake, next)"
            )
        is_function = isinstance(middleware, FunctionType | MethodType)
        if is_function and not iscoroutinefunction(middleware):
            raise TypeError(
                f"the middleware {name_of(middleware)} is a plain function; write"
                " `async def name(connection, handshake, next)`, with `await next()` in it"
            )
        self._middleware.append(middleware)
        return middleware

    def __call__(self, app: ExpressApplication) -> None:
        """Configure an application with this transport.

        Raises:
            TypeError: The application is not made by ``express(App())``.
        """
        if not isinstance(app, App) or not hasattr(app, "add_endpoint"):
            raise TypeError(
                f"socketio() configures a web application, not {app!r}: write"
                " app = express(App()), with `from alula.express import express`;"
                f" {explain_twin('alula.realtime.socketio')}"
            )
        place = name_sessions()
        worker_id = None if place is None else place.worker_id
        engine = Engine(self._engine, _LoopScheduler(), worker_id)
        server = SocketServer(app, engine, self._sockets)
        application = SocketIOApplication(server, self._origins, self._admit)
        handover = None if place is None else Handover(application, place)
        if self._sockets.recover is not None and WEBSOCKET in self._engine.transports:
            server.handover = handover
        server.middleware = self._middleware  # the same list, since more may be registered later

        async def start(_: object, next: Callable[[], Awaitable[object]]) -> None:
            server.is_closing = False
            if handover is not None:
                await handover.start()
            await next()

        async def stop(_: object, next: Callable[[], Awaitable[object]]) -> None:
            server.close()
            await server.streams_ended()
            try:
                await next()
            finally:
                if handover is not None:
                    await handover.stop()

        app.hooks(setup=[start], teardown=[stop])
        connect_bus(app, self._bus)
        app.channel_registry.on_gap(lambda: _end_sockets(server))
        limit = self._engine.max_message
        app.add_endpoint(self._path, handover or application, server.close, max_message=limit)
        app.transports.append("socketio")
        has_websocket = WEBSOCKET in self._engine.transports
        described = EventServer("socketio", self._path, has_websocket=has_websocket)
        app.channel_registry.servers.append(described)


def _end_sockets(server: SocketServer) -> None:
    """Close all connections with recovery: events were lost, so their clients must join again."""
    if server.options.recover is None:
        return
    for session in tuple(server.engine.sessions.values()):
        handler = session.receiver
        if isinstance(handler, PacketHandler) and handler.link is not None:
            handler.link.end()  # first, so that it cannot be recovered
            session.close("events were missed")


def socketio(
    path: str = "/socket.io/",
    *,
    transports: Collection[str] = (POLLING, WEBSOCKET),
    ping_interval: float = 25,
    ping_timeout: float = 20,
    join_timeout: float = 45,
    upgrade_timeout: float = 10,
    max_message: int = 1_000_000,
    origins: Collection[str] | None = None,
    admit: Admit | None = None,
    backlog: int = 1_000,
    recover: float | bool | None = None,
    bus: Bus | None = None,
    max_connections: int | None = None,
    max_connections_of_address: int | None = None,
    max_calls: int = 500,
    max_call_rate: float | None = None,
    stream_timeout: float | None = 300,
    stream_duration: float | None = None,
) -> SocketIO:
    """Return the socket.io transport: ``app.configure(socketio())``.

    Clients of FeathersJS and of socket.io use it to call services and to get their events.

    Examples:
        >>> from alula import App
        >>> from alula.adapters.memory import MemoryService
        >>> from alula.express import express, json, rest
        >>> from alula.realtime import socketio
        >>> app = express(App()).use(json()).configure(rest()).configure(socketio())
        >>> app = app.use("messages", MemoryService())

    Args:
        path: The path of the transport, beside REST.
        transports: The transports that clients may use: ``"polling"``, ``"websocket"``, or both.
        ping_interval: Seconds between two pings.
        ping_timeout: Seconds in which a client must answer a ping.
        join_timeout: Seconds in which a client must join after its handshake.
        upgrade_timeout: Seconds in which a websocket must replace polling.
        max_message: Bytes that a message may have. All calls under way of one client may have 16
            times as many together, and those of all clients 256 times as many.
        origins: Origins of web pages that may connect, such as ``["https://app.example"]``, or
            ``"*"``. None allows pages of this server, and websockets without cookies.
        admit: ``(handshake)``, plain or asynchronous; returns None, or the reason for a refusal.
        backlog: How many events, of at most 1 MiB together, may wait for a client that does not
            read. Then it is disconnected.
        recover: Whether a client that was away for a short time gets the events that it missed:
            True for two minutes, or a number of seconds. Then every event has one more argument,
            its offset.
        bus: Shares events with other processes and machines, such as ``RedisBus(url)``. None is
            enough for the workers of `alula serve`.
        max_connections: How many clients may be connected to this process, None for any number.
        max_connections_of_address: How many of them may have the same IP address. Only without a
            proxy in front.
        max_calls: How many calls of one client may be under way at the same time.
        max_call_rate: How many calls one client may begin per second, None for any number.
        stream_timeout: How many seconds the next item of a method that streams may take, and how
            long the method waits for a client that reads no further. None for any time.
        stream_duration: How many seconds a whole stream may last, None for any time.

    Raises:
        TypeError: An option has another type.
        ValueError: An option is out of range.
        ImportError: A websocket library is missing; install ``alula[realtime]``.
    """
    given = (transports,) if isinstance(transports, str) else tuple(transports)
    if not given or not {*given} <= {POLLING, WEBSOCKET}:
        raise ValueError(f'socketio(transports={transports!r}): "polling", "websocket", or both')
    if admit is not None and (not callable(admit) or unfit_signature(admit, "handshake")):
        raise TypeError(f"socketio(admit={admit!r}): it is a function of (handshake)")
    numbers = {
        "ping_interval": ping_interval,
        "ping_timeout": ping_timeout,
        "join_timeout": join_timeout,
        "upgrade_timeout": upgrade_timeout,
        "max_message": max_message,
        "backlog": backlog,
        "max_calls": max_calls,
        "max_connections": max_connections,
        "max_call_rate": max_call_rate,
        "max_connections_of_address": max_connections_of_address,
        "recover": RECOVER_SECONDS if recover is True else recover or None,
    }
    for name, value in numbers.items():
        check_number("socketio", name, value)
    streams = StreamLimits(None, stream_timeout, stream_duration)
    streams.check("socketio")
    if WEBSOCKET in given and importlib.util.find_spec("websockets") is None:
        raise ImportError(
            "socketio() needs a websocket library: pip install 'alula[realtime]', or allow polling"
            ' alone: socketio(transports=["polling"])'
        )
    engine = EngineOptions(
        given,
        ping_interval,
        ping_timeout,
        upgrade_timeout,
        max_message,
        backlog,
        max_sessions=max_connections,
        max_sessions_of_address=max_connections_of_address,
    )
    seconds = numbers["recover"]
    kept = None if seconds is None else RecoverOptions(seconds, backlog, engine.backlog_bytes)
    call_bytes = CALL_BYTES_PER_MESSAGE * max_message
    calls = CallLimits(max_calls, call_bytes, max_call_rate)
    sockets = SocketOptions(join_timeout, calls, kept, streams)
    return SocketIO(path, engine, sockets, Origins(origins), admit, bus)
