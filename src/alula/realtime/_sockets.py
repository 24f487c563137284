"""socket.io above a session: joining the namespace, calls, events, leaving.

`Client` belongs to one session, and `Socket` to one connection of the application. With recovery a
connection outlives its session: its socket sleeps until the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from alula._app import App
from alula._connection import Connection, EventMessage, client_key
from alula._identity import identify_connection
from alula._json_encoding import dumps_with_attachments
from alula._public_error import public_error
from alula._shares import Shares
from alula._wire import Decoder, Frame, Packet, PacketType, ProtocolError, encode_packet
from alula.errors import Forbidden, FrameworkError, TooManyRequests
from alula.realtime._calls import call_context, encode_error, log_error, run_call
from alula.realtime._elsewhere import Elsewhere
from alula.realtime._engine import Engine, Refusal, Session, Timer, Work
from alula.realtime._frames import encode_event, parse_json, send_packet
from alula.realtime._handover import Handover
from alula.realtime._handshake import Handshake
from alula.realtime._limits import CallLimits, CallsUnderWay, LogLimit
from alula.realtime._recovery import (
    MissedEvents,
    RecoverOptions,
    SleepingSockets,
    encode_with_offset,
)

__all__ = ["Client", "ConnectionMiddleware", "Hub", "Socket", "SocketOptions"]

_log: Final = logging.getLogger("alula.realtime")

ConnectionMiddleware: TypeAlias = Callable[
    [Connection, Handshake, Callable[[], Awaitable[None]]], Awaitable[None]
]
"""``async (connection, handshake, next)``: goes on with ``await next()``, refuses by raising."""

MAX_REFUSED_JOINS: Final = 10
_CLIENTS_OF_CALL_BYTES: Final = 16  # all calls under way have as many bytes as so many clients
MAX_WITHOUT_CONNECTION: Final = 10_000
"""How many sessions may have not joined yet: each costs some KB, and a request makes one."""

# Looked up once: the attribute of an enum costs as much as a call of a function.
_CONNECT: Final = PacketType.CONNECT
_EVENT: Final = PacketType.EVENT
_INCOMPLETE: Final[Any] = (None, None, None, "/")  # unpacked as a packet is

_FINAL_REASONS: Final = frozenset({"server shutting down"})


@dataclass(frozen=True)
class SocketOptions:
    """What sockets may do.

    Attributes:
        join_timeout: Seconds that a session may be open without a connection.
        calls: How many calls of one connection may be under way.
        recover: How long connections sleep, None for not at all.
    """

    join_timeout: float
    calls: CallLimits
    recover: RecoverOptions | None


class Hub:
    """What all sockets of a transport share.

    Args:
        app: The application.
        engine: Has the sessions.
        options: What each socket may do.

    Attributes:
        middleware: Runs for each new connection.
        is_closing: Whether no new sessions are taken.
        without_connection: Those that have not joined, or have left, the oldest first.
        tasks: Calls and joins under way that nothing else refers to.
        asleep: Sockets by their secret, while their clients are away.
        call_bytes: What the calls of all clients may have.
        handover: Reaches connections that sleep at other workers; None without recovery.
        log_limit: How many lines clients may cause in the log.
    """

    def __init__(self, app: App, engine: Engine, options: SocketOptions) -> None:
        self.app = app
        self.routes = app.routes  # looked up once, since an application has a `__getattr__`
        self.engine = engine
        self.options = options
        self.middleware: list[ConnectionMiddleware] = []
        self.is_closing = False
        self.without_connection: dict[Client, None] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.asleep: SleepingSockets[Socket] = SleepingSockets()
        # What they keep may lack events of other processes, so their clients must not resume.
        app.channel_registry.on_gap(self.asleep.end_all)
        self.call_bytes = Shares(_CLIENTS_OF_CALL_BYTES * options.calls.max_bytes)
        self.handover: Handover | None = None
        self.log_limit = LogLimit()

    def spawn(self, work: Work) -> None:
        """Run a call or a join beside others."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run_middleware(self, connection: Connection, handshake: Handshake) -> None:
        """Run the middleware for a new connection.

        Raises:
            Forbidden: One did not go on.
            Exception: What one raises.
        """
        reached = -1

        async def run(at: int) -> None:
            nonlocal reached
            reached = max(reached, at)
            if at < len(self.middleware):
                await self.middleware[at](connection, handshake, lambda: run(at + 1))

        await run(0)
        if reached < len(self.middleware):
            raise Forbidden("The connection was refused")

    def check_room(self, address: str | None) -> None:
        """Check the limits for a further session.

        Raises:
            Refusal: One is reached, or the server stops.
        """
        if self.is_closing:
            raise Refusal.forbidden("The server takes no connections now", 503)
        self.engine.check_room(address)

    def close(self) -> None:
        """End all sessions, and the connections that sleep; take no new ones."""
        self.is_closing = True
        self.engine.close()
        self.asleep.end_all()


class Socket:
    """The link of one connection: sends events while its client is there.

    Attributes:
        connection: Set after the link was given to it.
        client: Takes the packets of the session.
        session: Where the client is reached, None while it sleeps.
        secret: The id by which its client comes back, None without recovery.
    """

    __slots__ = ("_hub", "_missed", "client", "connection", "secret", "session")
    client: Client
    connection: Connection
    session: Session | None

    def __init__(self, hub: Hub, session: Session, client: Client) -> None:
        self._hub = hub
        self.session = session
        self.client = client
        recover = hub.options.recover
        self.secret = None if recover is None else hub.engine.new_id()
        self._missed = None if recover is None else MissedEvents(recover, hub.engine.scheduler)

    @property
    def queued(self) -> int:
        """How many frames wait until the client reads."""
        return 0 if self.session is None else self.session.queued

    def deliver(self, message: EventMessage) -> None:
        """Send an event; never waits, never raises."""
        session = self.session
        if self._missed is None:
            if session is not None:
                for frame in message.encoded(encode_event):
                    session.send(frame)
            return
        event = message.encoded(encode_with_offset)
        if event is None:
            return
        has_all = self._missed.keep_for(self.connection.sign_in).append(event)
        if session is not None:
            for frame in event.frames:
                session.send(frame)
        elif not has_all:
            self.end()

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:
        """End the connection.

        Args:
            reason: Why, for the log.
            reconnect: Whether the client comes back by itself, with a new connection: its transport
                is closed, as by a failure. Otherwise it is told to stay away.
        """
        session = self.session
        _log.debug("connection %s is closed: %r", self.connection.id, reason)
        self.end()
        if session is None:
            return
        if reconnect:
            session.close(reason)
        else:
            send_packet(session, Packet(PacketType.DISCONNECT))
            self.client.leave()

    # -- recovery ------------------------------------------------------------------------------

    def sleep(self) -> bool:
        """Wait for the client to come back, if it may; return whether it may."""
        hub, missed = self._hub, self._missed
        if missed is None or hub.options.recover is None or self.secret is None:
            return False
        self.session = None
        hub.asleep.add(self.secret, self, client_key(self.connection))
        self.connection.is_asleep = True
        missed.wake_up = hub.engine.scheduler.call_later(hub.options.recover.seconds, self.end)
        return True

    def wake(self, client: Client, offset: str) -> bool:
        """Go on in a new session with the events after an offset; end if some of them are gone.

        Args:
            client: Takes the packets of the new session.
            offset: The last event that the client received, empty for none.

        Returns:
            Whether it has gone on; False if the client is to join anew.
        """
        missed, owner = self._missed, self.connection.sign_in
        events = None if missed is None else missed.keep_for(owner).after(offset)
        if events is None:
            self.end()
            return False
        self._forget_sleep()
        session = self.session = client.session
        self.client = client
        self.send_joined(session)
        for event in events:
            for frame in event.frames:
                session.send(frame)
        if session.is_open:
            client.socket = self
        else:
            self.end()  # asleep again, it would fill the queue of the next session as well
        return True

    def send_joined(self, session: Session) -> None:
        """Tell the client that it has joined."""
        joined = {"sid": self.connection.id}
        if self.secret is not None:
            joined["pid"] = self.secret
        send_packet(session, Packet(PacketType.CONNECT, joined))

    def end(self) -> None:
        """Take the connection out of the application, for good."""
        self.session = None
        self._forget_sleep()
        self._missed = None  # so that it cannot fall asleep any more
        self._hub.app.remove_connection(self.connection)

    def _forget_sleep(self) -> None:
        if self.secret is not None and self._missed is not None:
            self._hub.asleep.remove(self.secret)
            self.connection.is_asleep = False
            if self._missed.wake_up is not None:
                self._missed.wake_up.cancel()
                self._missed.wake_up = None


class Client:
    """Takes the packets of one session.

    Args:
        hub: What is shared.
        session: The session.
        handshake: The request that opened it.
    """

    __slots__ = (
        "_calls",
        "_decoder",
        "_handshake",
        "_has_joined",
        "_hub",
        "_is_joining",
        "_refused",
        "_waiting",
        "session",
        "socket",
    )
    socket: Socket | None
    _waiting: Timer | None

    def __init__(self, hub: Hub, session: Session, handshake: Handshake) -> None:
        self._hub = hub
        self.session = session
        self._handshake = handshake
        self._decoder = Decoder(parse_json, max_bytes=hub.engine.options.max_message)
        self.socket = None
        self._is_joining = self._has_joined = False
        self._refused = 0
        self._calls = CallsUnderWay(
            hub.options.calls, hub.call_bytes, session.address, hub.engine.scheduler.time
        )
        self._wait_for_join()

    def receive(self, frame: Frame, at_once: bool = False) -> Work | None:
        """Take a message; return the call or the join that is to be run for it.

        Raises:
            ProtocolError: It is not a packet, or not one that may come now.
        """
        event, socket = self._decoder.decode_event(frame), self.socket
        if event is not None and socket is not None:
            return self._begin_call(socket.connection, event, len(frame), at_once)
        packet = self._decoder.decode(frame)
        size = len(frame) + (self._calls.held and self._calls.release())
        # Faster than four attributes of a named tuple; None if binary data follows.
        kind, data, number, namespace = packet or _INCOMPLETE
        if packet is not None and kind is _CONNECT:
            return self._begin_join(packet, size)
        if socket is None or namespace != "/":
            raise ProtocolError("a packet for a namespace that was not joined")
        if kind is None:
            if not self._calls.hold(size):
                raise ProtocolError("the calls under way have too many bytes")
            return None
        if kind is _EVENT:
            return self._begin_call(socket.connection, (data, number), size, at_once)
        if kind is PacketType.DISCONNECT:
            self.leave()
            socket.end()
        elif kind is PacketType.CONNECT_ERROR:
            raise ProtocolError("a packet that only servers send")
        return None  # the server asks for no acknowledgement, so nothing waits for one

    def leave(self) -> None:
        """Be without a connection; the session ends unless the client joins again."""
        self.socket = None
        if self.session.is_open:
            self._wait_for_join()

    def closed(self, reason: str) -> None:
        """The session has ended: the connection sleeps, or ends as well."""
        self._stop_waiting()
        if self._calls.held:
            self._calls.release()
        socket, self.socket = self.socket, None
        if socket is None:
            return
        is_final = reason in _FINAL_REASONS or reason.startswith("parse error")
        if is_final or not socket.sleep():
            socket.end()

    # -- calls ---------------------------------------------------------------------------------

    def _begin_call(
        self, connection: Connection, event: tuple[list[Any], int | None], size: int, at_once: bool
    ) -> Work | None:
        hub, calls, (data, number) = self._hub, self._calls, event
        try:
            size = calls.check(size)
            context = call_context(hub.routes, connection, data)
        except FrameworkError as error:
            log_error(error, "a call", hub.log_limit, self.session.address)
            if number is not None:
                for frame in encode_error(number, error):
                    self.session.send(frame)
            return None
        if not at_once:
            calls.begin(size)
        return run_call(
            context,
            connection,
            number,
            self.session,
            calls,
            size,
            at_once,
            hub.app,
            hub.log_limit,
        )

    # -- joining -------------------------------------------------------------------------------

    def _begin_join(self, packet: Packet, size: int) -> Work | None:
        if packet.namespace != "/":
            self._refuse({"message": "Invalid namespace"}, packet.namespace)
            return None
        if self._is_joining or self.socket is not None:
            raise ProtocolError("the client has joined already")
        auth: dict[str, Any] = packet.data or {}
        secret, offset = auth.get("pid"), auth.get("offset", "")
        sleeping = self._hub.asleep.get(secret) if isinstance(secret, str) else None
        if sleeping is not None and isinstance(offset, str) and sleeping.wake(self, offset):
            self._stop_waiting()
            return None
        try:
            # To leave and join again and again costs as much as calls.
            size = self._calls.check(size, is_rated=self._has_joined)
            self._calls.begin(size)
        except TooManyRequests as error:
            self._refuse({"message": error.message})
            return None
        self._is_joining = self._has_joined = True
        handover = self._hub.handover
        worker = handover.owner_of(secret) if handover and isinstance(secret, str) else None
        if not handover or not worker:
            return self._run_join(self._join(auth), size)
        frames = encode_packet(packet, dumps_with_attachments)
        elsewhere = Elsewhere(self.session, self._handshake, frames, self._stop_waiting)
        return self._run_join(elsewhere.run(handover, worker, lambda: self._join(auth)), size)

    async def _run_join(self, work: Work, size: int) -> None:
        try:
            await self._hub.app.turns.take(self.session.address, work)
        finally:
            self._calls.end(size)

    async def _join(self, auth: dict[str, Any]) -> None:
        hub, session = self._hub, self.session
        # Of its own: what a client sends to join must not stay as long as its session.
        handshake = replace(self._handshake, auth=auth)
        socket = Socket(hub, session, self)
        connection = socket.connection = Connection(
            socket, provider="socketio", headers=handshake.headers, ip=handshake.ip
        )
        try:
            await identify_connection(hub.app, connection)
            await hub.run_middleware(connection, handshake)
        except Exception as error:  # noqa: BLE001  # it is logged, and the client gets its message
            hub.app.remove_connection(connection)
            log_error(error, "a new connection", hub.log_limit, session.address)
            shown = public_error(error, debug=hub.app.debug)
            content: dict[str, Any] = {"message": shown.message}
            if shown.data is not None:
                content["data"] = shown.data
            self._refuse(content)
        else:
            socket.send_joined(session)  # closes a session whose queue is full
            if session.is_open:
                self._stop_waiting()
                self.socket = socket
                hub.app.add_connection(connection)
            else:
                hub.app.remove_connection(connection)
        finally:
            self._is_joining = False

    def _refuse(self, error: Mapping[str, Any], namespace: str = "/") -> None:
        self._refused += 1
        if self._refused > MAX_REFUSED_JOINS:
            self.session.close("parse error: too many joins were refused")
        else:
            send_packet(self.session, Packet(PacketType.CONNECT_ERROR, error, namespace=namespace))

    def _wait_for_join(self) -> None:
        waiting = self._hub.without_connection
        if len(waiting) >= MAX_WITHOUT_CONNECTION:
            # Not the new one: whoever fills all places must not lock others out, who join at once.
            next(iter(waiting)).session.close("join timeout")
        waiting[self] = None
        self._waiting = self._hub.engine.scheduler.call_later(
            self._hub.options.join_timeout, self.session.close, "join timeout"
        )

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            del self._hub.without_connection[self]
            self._waiting.cancel()
            self._waiting = None
