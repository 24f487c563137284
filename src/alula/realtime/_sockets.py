"""socket.io on top of engine.io's sessions: joining, calls, events, leaving.

A `PacketHandler` handles the packets of one session. A `SocketLink` sends the events of one
connection of the application. With recovery, a connection lives longer than its session: its link
sleeps until the client comes back in another session.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from alula._app import App
from alula._connection import Connection, Event, client_key
from alula._identity import identify_connection
from alula._item_stream import CLOSE_SECONDS
from alula._json_encoding import dumps_with_attachments
from alula._live import live_lists_of
from alula._public_error import public_error
from alula._shares import Shares
from alula._stream_limits import StreamLimits
from alula._wire import (
    MESSAGE,
    Decoder,
    Frame,
    Packet,
    PacketType,
    ProtocolError,
    encode_packet,
    encode_text,
)
from alula.errors import Forbidden, TooManyRequests, Unavailable
from alula.realtime._calls import ClientCalls, log_error, parse_json
from alula.realtime._engine import Engine, EngineSession, Refusal, Timer, Work
from alula.realtime._event_ids import event_ids_of
from alula.realtime._handover import Handover
from alula.realtime._handshake import Handshake
from alula.realtime._limits import CallLimits, CallsUnderWay, LogLimit
from alula.realtime._live_socket import SocketLists
from alula.realtime._recovery import (
    EventWithOffset,
    MissedEvents,
    RecoverOptions,
    SleepingLinks,
)
from alula.realtime._session_proxy import SessionProxy

__all__ = [
    "ConnectionMiddleware",
    "PacketHandler",
    "SocketLink",
    "SocketOptions",
    "SocketServer",
    "encode_event",
]

_log: Final = logging.getLogger("alula.realtime")

ConnectionMiddleware: TypeAlias = Callable[
    [Connection, Handshake, Callable[[], Awaitable[None]]], Awaitable[None]
]
"""``async (connection, handshake, next)``: ``await next()`` goes on, an exception refuses."""

MAX_REFUSED_JOINS: Final = 10
_CLIENTS_OF_CALL_BYTES: Final = 16
"""How many clients may use up their bytes for calls at the same time."""
MAX_WITHOUT_CONNECTION: Final = 10_000
"""How many sessions may exist without a join: each costs some KB, and one request makes one."""

# Looked up once: the attribute of an enum costs as much as a function call.
_CONNECT: Final = PacketType.CONNECT
_EVENT: Final = PacketType.EVENT
_EVENT_HEAD: Final = f"{MESSAGE}{_EVENT:d}"
_INCOMPLETE: Final[Any] = (None, None, None, "/")  # in the form of a packet

_FINAL_REASONS: Final = frozenset({"server shutting down"})

_offsets: Final = itertools.count(1)


# -- events as frames ------------------------------------------------------------------------------


def encode_event(event: Event) -> list[Frame]:
    """Return the frames of an event, none if its data has no JSON form."""
    return _encode_arguments(event, event.data)


def _encode_with_offset(event: Event) -> EventWithOffset | None:
    """Return the frames of an event with its offset as the last argument, None if it has none."""
    offset = f"{next(_offsets):x}"
    frames = _encode_arguments(event, event.data, offset)
    return EventWithOffset(offset, frames, sum(map(len, frames))) if frames else None


def _encode_arguments(event: Event, *arguments: object) -> list[Frame]:
    # FeathersJS' clients listen to ``messages created``; a service at the root has the path ``/``.
    name = f"{event.path or '/'} {event.name}"
    attachments: list[bytes] = []
    try:
        text = dumps_with_attachments([name, *arguments], attachments)
        if attachments:
            return encode_text(_EVENT, text, attachments)
    except Exception:  # noqa: BLE001  # of the user's types; must not fail the call with the event
        _log.exception(
            "the event %s of %r was not sent: its data has no JSON form", event.name, event.path
        )
        return []
    return [_EVENT_HEAD + text]


def _send_packet(session: EngineSession, packet: Packet) -> None:
    for frame in encode_packet(packet, dumps_with_attachments):
        session.send(frame)


# -- what all connections of a transport share -----------------------------------------------------


@dataclass(frozen=True)
class SocketOptions:
    """Limits of each client.

    Attributes:
        join_timeout: Seconds that a session may be open without a connection.
        calls: How many calls of one connection may be under way.
        recover: How long connections sleep, None if they do not.
        streams: The time limits of streams.
    """

    join_timeout: float
    calls: CallLimits
    recover: RecoverOptions | None
    streams: StreamLimits


class SocketServer:
    """What all connections of a transport share.

    Args:
        app: The application.
        engine: Has the sessions.
        options: Limits of each client.

    Attributes:
        middleware: Runs for each new connection.
        is_closing: Whether new sessions are refused.
        without_connection: Handlers whose clients have not joined, or have left, the oldest first.
        tasks: Calls and joins under way, which must not be collected as garbage.
        streams: The same of calls that stream.
        asleep: Links by their secret, while their clients are away.
        call_bytes: The bytes that all calls under way may have.
        handover: Reaches connections that sleep at other workers; None without recovery.
        log_limit: How many lines clients may cause in the log.
        lists: The live lists of the application.
        ids: Signs what clients of live lists show when they come back.
    """

    def __init__(self, app: App, engine: Engine, options: SocketOptions) -> None:
        self.app = app
        self.routes = app.routes  # looked up once, since an application has a `__getattr__`
        self.engine = engine
        self.options = options
        self.middleware: list[ConnectionMiddleware] = []
        self.is_closing = False
        self.without_connection: dict[PacketHandler, None] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.streams: set[asyncio.Task[None]] = set()
        self.asleep: SleepingLinks[SocketLink] = SleepingLinks()
        # After a gap, their clients must not resume: events of other processes may be missing.
        app.channel_registry.on_gap(self.asleep.end_all)
        self.call_bytes = Shares(_CLIENTS_OF_CALL_BYTES * options.calls.max_bytes)
        self.handover: Handover | None = None
        self.log_limit = LogLimit()
        self.lists = live_lists_of(app)
        self.ids = event_ids_of(app)

    def spawn(self, work: Work) -> None:
        """Run a call or a join in a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run_middleware(self, connection: Connection, handshake: Handshake) -> None:
        """Run the middleware for a new connection.

        Raises:
            Forbidden: A middleware did not call ``next``.
            Exception: Whatever a middleware raises.
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
        """Check whether another session may begin.

        Raises:
            Refusal: A limit is reached, or the server stops.
        """
        if self.is_closing:
            raise Refusal.forbidden("The server takes no connections now", 503)
        self.engine.check_room(address)

    def close(self) -> None:
        """End all sessions and sleeping connections, and refuse new ones."""
        self.is_closing = True
        self.engine.close()
        self.asleep.end_all()

    async def streams_ended(self) -> None:
        """Wait until the methods whose streams `close` has ended have cleaned up.

        What hooks do there must not hold up a server that stops for longer than a method may.
        """
        if self.streams:
            await asyncio.wait([*self.streams], timeout=2 * CLOSE_SECONDS)


# -- one connection --------------------------------------------------------------------------------


class SocketLink:
    """The link of one connection: sends its events to the session of the client.

    Attributes:
        connection: Set right after the link was made.
        handler: Handles the packets of the session.
        session: The session of the client, None while the client is away.
        secret: The id by which its client comes back, None without recovery.
    """

    __slots__ = ("_lists", "_missed", "_server", "connection", "handler", "secret", "session")
    _lists: SocketLists | None  # None until the client asks for a list
    handler: PacketHandler
    connection: Connection
    session: EngineSession | None

    def __init__(
        self, server: SocketServer, session: EngineSession, handler: PacketHandler
    ) -> None:
        self._server = server
        self.session = session
        self.handler = handler
        self._lists = None
        engine, recover = server.engine, server.options.recover
        self.secret = None if recover is None else engine.new_id()
        self._missed = None if recover is None else MissedEvents(recover, engine.scheduler)

    @property
    def queued(self) -> int:
        """How many frames wait for the client to read."""
        return 0 if self.session is None else self.session.queued

    def deliver(self, event: Event) -> None:
        """Send an event; never waits, never raises."""
        if self._missed is not None:
            self._deliver_with_offset(event, self._missed)
            return
        session = self.session
        if session is None:
            return
        frames: list[Frame] | None = event.frames.get(encode_event)
        if frames is None:
            frames = event.frames[encode_event] = encode_event(event)
        for frame in frames:
            session.send(frame)

    def _deliver_with_offset(self, event: Event, missed: MissedEvents) -> None:
        """Send an event, or keep it for a client that is away."""
        encoded = event.encoded(_encode_with_offset)
        if encoded is None:
            return
        has_all = missed.keep_for(self.connection.sign_in).append(encoded)
        if self.session is not None:
            for frame in encoded.frames:
                self.session.send(frame)
        elif not has_all:
            self.end()

    @property
    def lists(self) -> SocketLists:
        """The live lists of the client."""
        if self._lists is None:
            self._lists = SocketLists(self._server.lists, self._server.ids, self)
        return self._lists

    def drained(self) -> None:
        """Learn that the client has read all frames that waited."""
        if self._lists is not None:
            self._lists.drained()

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:
        """End the connection.

        Args:
            reason: Why, for the log.
            reconnect: Whether the client should come back by itself with a new connection. Then its
                transport is closed as if the network had failed. Otherwise the client is told not
                to come back.
        """
        session = self.session
        _log.debug("connection %s is closed: %r", self.connection.id, reason)
        self.end()
        if session is None:
            return
        if reconnect:
            session.close(reason)
        else:
            _send_packet(session, Packet(PacketType.DISCONNECT))
            self.handler.leave()

    # -- recovery ------------------------------------------------------------------------------

    def sleep(self) -> bool:
        """Wait for the client to come back, if that is possible; return whether it is."""
        server, missed = self._server, self._missed
        if missed is None or server.options.recover is None or self.secret is None:
            return False
        self.session = None
        server.asleep.add(self.secret, self, client_key(self.connection))
        self.connection.is_asleep = True
        seconds = server.options.recover.seconds
        missed.wake_up = server.engine.scheduler.call_later(seconds, self.end)
        return True

    def wake(self, handler: PacketHandler, offset: str) -> bool:
        """Send the events after an offset in a new session, or end if some of them are gone.

        Args:
            handler: Handles the packets of the new session.
            offset: The last event that the client received, empty for none.

        Returns:
            Whether the connection goes on; False if the client has to join as a new one.
        """
        missed, owner = self._missed, self.connection.sign_in
        events = None if missed is None else missed.keep_for(owner).after(offset)
        if events is None:
            self.end()
            return False
        self._forget_sleep()
        session = self.session = handler.session
        self.handler = handler
        self.send_joined(session)
        for event in events:
            for frame in event.frames:
                session.send(frame)
        if session.is_open:
            handler.link = self
            if self._lists is not None:
                self._lists.wake()
        else:
            self.end()  # its events would fill the queue of the next session, too
        return True

    def send_joined(self, session: EngineSession) -> None:
        """Tell the client that it has joined."""
        joined = {"sid": self.connection.id}
        if self.secret is not None:
            joined["pid"] = self.secret
        _send_packet(session, Packet(PacketType.CONNECT, joined))

    def end(self) -> None:
        """Remove the connection from the application for good."""
        self.session = None
        self._forget_sleep()
        self._missed = None  # so it cannot sleep any more
        if self._lists is not None:
            self._lists.close()
        self._server.app.remove_connection(self.connection)

    def _forget_sleep(self) -> None:
        if self.secret is not None and self._missed is not None:
            self._server.asleep.remove(self.secret)
            self.connection.is_asleep = False
            if self._missed.wake_up is not None:
                self._missed.wake_up.cancel()
                self._missed.wake_up = None


# -- the packets of one session --------------------------------------------------------------------


class PacketHandler:
    """Handles the packets of one session.

    Args:
        server: What all connections share.
        session: The session.
        handshake: The request that opened it.

    Attributes:
        session: As given.
        link: The link of the connection, None before the client joins and after it leaves.
    """

    __slots__ = (
        "_calls",
        "_decoder",
        "_handshake",
        "_has_joined",
        "_is_joining",
        "_refused",
        "_server",
        "_under_way",
        "_waiting",
        "link",
        "session",
    )
    link: SocketLink | None
    _waiting: Timer | None

    def __init__(self, server: SocketServer, session: EngineSession, handshake: Handshake) -> None:
        self._server = server
        self.session = session
        self._handshake = handshake
        self._decoder = Decoder(parse_json, max_bytes=server.engine.options.max_message)
        self.link = None
        self._is_joining = self._has_joined = False
        self._refused = 0
        self._under_way = CallsUnderWay(
            server.options.calls, server.call_bytes, session.address, server.engine.scheduler.time
        )
        self._calls = ClientCalls(
            server.app,
            server.routes,
            session,
            self._under_way,
            server.log_limit,
            self._lists_of_client,
            server.options.streams,
            server.streams,
        )
        self._wait_for_join()

    def receive(self, frame: Frame, at_once: bool = False) -> Work | None:
        """Handle a message; return the call or the join that it asks for.

        Raises:
            ProtocolError: It is not a packet, or the packet is not allowed now.
        """
        event, link = self._decoder.decode_event(frame), self.link
        if event is not None and link is not None:
            data, number = event
            return self._calls.begin(link.connection, data, number, len(frame), at_once)
        packet = self._decoder.decode(frame)
        size = len(frame) + (self._under_way.held and self._under_way.release())
        # Faster than four attributes of a named tuple. The kind is None if attachments follow.
        kind, data, number, namespace = packet or _INCOMPLETE
        if packet is not None and kind is _CONNECT:
            return self._begin_join(packet, size)
        if link is None or namespace != "/":
            raise ProtocolError("a packet for a namespace that was not joined")
        if kind is None:
            if not self._under_way.hold(size):
                raise ProtocolError("the calls under way have too many bytes")
            return None
        if kind is _EVENT:
            return self._calls.begin(link.connection, data, number, size, at_once)
        if kind is PacketType.DISCONNECT:
            self.leave()
            link.end()
        elif kind is PacketType.CONNECT_ERROR:
            raise ProtocolError("a packet that only servers send")
        return None  # an acknowledgement, which this server never asks for

    def leave(self) -> None:
        """Go on without a connection. The session ends unless the client joins again."""
        self.link = None
        self._calls.end_streams()
        if self.session.is_open:
            self._wait_for_join()

    def drained(self) -> None:
        """Let live lists and streams go on that the client did not read."""
        self._calls.drained()
        if self.link is not None:
            self.link.drained()

    def closed(self, reason: str) -> None:
        """Let the connection sleep or end, since the session has ended; its streams end."""
        self._stop_waiting()
        self._calls.end_streams()
        if self._under_way.held:
            self._under_way.release()
        link, self.link = self.link, None
        if link is None:
            return
        is_final = reason in _FINAL_REASONS or reason.startswith("parse error")
        if is_final or not link.sleep():
            link.end()

    def _lists_of_client(self) -> SocketLists:
        if self.link is None:
            raise Unavailable("The connection was closed")
        return self.link.lists

    # -- joining -------------------------------------------------------------------------------

    def _begin_join(self, packet: Packet, size: int) -> Work | None:
        if packet.namespace != "/":
            self._refuse({"message": "Invalid namespace"}, packet.namespace)
            return None
        if self._is_joining or self.link is not None:
            raise ProtocolError("the client has joined already")
        auth: dict[str, Any] = packet.data or {}
        secret, offset = auth.get("pid"), auth.get("offset", "")
        sleeping = self._server.asleep.get(secret) if isinstance(secret, str) else None
        if sleeping is not None and isinstance(offset, str) and sleeping.wake(self, offset):
            self._stop_waiting()
            return None
        try:
            # To leave and join repeatedly costs as much as calls, so it counts as calls.
            size = self._under_way.check(size, is_rated=self._has_joined)
            self._under_way.begin(size)
        except TooManyRequests as error:
            self._refuse({"message": error.message})
            return None
        self._is_joining = self._has_joined = True
        handover = self._server.handover
        worker = handover.owner_of(secret) if handover and isinstance(secret, str) else None
        if not handover or not worker:
            return self._run_join(self._join(auth), size)
        frames = encode_packet(packet, dumps_with_attachments)
        proxy = SessionProxy(self.session, self._handshake, frames, self._stop_waiting)
        return self._run_join(proxy.run(handover, worker, lambda: self._join(auth)), size)

    async def _run_join(self, work: Work, size: int) -> None:
        try:
            await self._server.app.turns.take(self.session.address, work)
        finally:
            self._under_way.end(size)

    async def _join(self, auth: dict[str, Any]) -> None:
        server, session = self._server, self.session
        # A copy: what a client sends to join must not be kept as long as its session.
        handshake = replace(self._handshake, auth=auth)
        link = SocketLink(server, session, self)
        connection = link.connection = Connection(
            link, provider="socketio", headers=handshake.headers, ip=handshake.ip
        )
        try:
            await identify_connection(server.app, connection)
            await server.run_middleware(connection, handshake)
        except Exception as error:  # noqa: BLE001  # it is logged, and the client gets its message
            server.app.remove_connection(connection)
            log_error(error, "a new connection", server.log_limit, session.address)
            shown = public_error(error, debug=server.app.debug)
            content: dict[str, Any] = {"message": shown.message}
            if shown.data is not None:
                content["data"] = shown.data
            self._refuse(content)
        else:
            link.send_joined(session)  # a session with a full queue is closed by this
            if session.is_open:
                self._stop_waiting()
                self.link = link
                server.app.add_connection(connection)
            else:
                server.app.remove_connection(connection)
        finally:
            self._is_joining = False

    def _refuse(self, error: Mapping[str, Any], namespace: str = "/") -> None:
        self._refused += 1
        if self._refused > MAX_REFUSED_JOINS:
            self.session.close("parse error: too many joins were refused")
        else:
            _send_packet(self.session, Packet(PacketType.CONNECT_ERROR, error, namespace=namespace))

    def _wait_for_join(self) -> None:
        waiting = self._server.without_connection
        if len(waiting) >= MAX_WITHOUT_CONNECTION:
            # The oldest one, not the new one: a flood of sessions that never join must not lock out
            # clients that join right away.
            next(iter(waiting)).session.close("join timeout")
        waiting[self] = None
        self._waiting = self._server.engine.scheduler.call_later(
            self._server.options.join_timeout, self.session.close, "join timeout"
        )

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            del self._server.without_connection[self]
            self._waiting.cancel()
            self._waiting = None
