"""Sessions of engine.io: ids, heartbeats, queues, and the upgrade from polling to a websocket.

There is no I/O here. A `Transport` writes frames, a `Receiver` handles messages, and a `Scheduler`,
such as the event loop, has the time.

A session ends when its client leaves, does not answer a ping in time, sends something that is not a
packet, or does not read: only a limited number of frames waits for a slow reader.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from alula import _wire
from alula._wire import Frame, OpenPacket, ProtocolError
from alula.realtime._limits import Backlog, BacklogLimits

__all__ = [
    "CLIENT_LEFT",
    "POLLING",
    "WEBSOCKET",
    "Engine",
    "EngineOptions",
    "EngineSession",
    "Receiver",
    "Refusal",
    "Scheduler",
    "Transport",
    "check_number",
]

POLLING: Final = "polling"
WEBSOCKET: Final = "websocket"

CLIENT_LEFT: Final = "transport close"
"""The reason if the client has closed the session."""

Work: TypeAlias = Coroutine[Any, Any, None]
"""A call or a join that a frame asks for. The transport of the frame runs it."""

_ID_BYTES: Final = 15  # 20 characters, as nothing else protects a session than its secret id


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Forget it."""


class Scheduler(Protocol):
    """A clock with timers, such as an event loop."""

    def time(self) -> float:
        """Return the time in seconds."""
        ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call ``callback`` in ``delay`` seconds."""
        ...


class Transport(Protocol):
    """The current transport of a session."""

    @property
    def name(self) -> str:
        """Its name in the protocol."""
        ...

    def write(self, frame: Frame) -> bool:
        """Send a frame; return whether the next one may follow at once.

        If not, the transport calls `EngineSession.flush` when it may.
        """
        ...

    def wake(self) -> None:
        """Learn that frames are queued. Called while `write` may not be called."""

    def close(self, reason: str) -> None:
        """End. Frames that were not written are lost, unless a request waits for them."""


class Receiver(Protocol):
    """Handles the messages of a session: the protocol socket.io."""

    def receive(self, frame: Frame, at_once: bool = False) -> Work | None:
        """Handle a message; return the work that it asks for.

        Args:
            frame: The message.
            at_once: Whether the caller runs the first step of the work immediately.

        Raises:
            ProtocolError: The message is not valid; the session is closed.
        """
        ...

    def drained(self) -> None:
        """Learn that the client has read all frames that waited."""

    def closed(self, reason: str) -> None:
        """Learn that the session has ended."""


@dataclass(frozen=True)
class EngineOptions:
    """Times in seconds, sizes in bytes.

    Attributes:
        transports: The names of the transports that clients may use.
        ping_interval: Time between two pings.
        ping_timeout: Time in which a pong must arrive.
        upgrade_timeout: Time in which a websocket must replace polling.
        max_message: The largest size of a message, and of the body of a polling request.
        backlog: How many frames may wait for a slow reader, without the answers to its calls.
        backlog_bytes: How many bytes they may have together.
        max_sessions: How many sessions there may be, None for any number.
        max_sessions_of_address: How many of one IP address, None for any number.
    """

    transports: tuple[str, ...] = (POLLING, WEBSOCKET)
    ping_interval: float = 25
    ping_timeout: float = 20
    upgrade_timeout: float = 10
    max_message: int = 1_000_000
    backlog: int = 1_000
    backlog_bytes: int = 1024 * 1024
    max_sessions: int | None = None
    max_sessions_of_address: int | None = None


def check_number(plugin: str, name: str, value: object) -> None:
    """Check an option that is a number greater than 0, or None for the default.

    Args:
        plugin: The name of the plugin, for the message.
        name: The name of the option.
        value: What was given.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not greater than 0.
    """
    if value is None:
        return
    if not isinstance(value, int | float):
        choice = "True, or a number of seconds" if name == "recover" else "a number"
        raise TypeError(f"{plugin}({name}={value!r}): give {choice}")
    if isinstance(value, bool) or not value > 0:  # not NaN, either
        raise ValueError(f"{plugin}({name}={value!r}): it must be greater than 0")


class Refusal(Exception):
    """A request that engine.io refuses, with its code, message and HTTP status."""

    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status

    @classmethod
    def unknown_transport(cls) -> Refusal:
        """The transport does not exist, or is not allowed."""
        return cls(0, "Transport unknown")

    @classmethod
    def unknown_session(cls) -> Refusal:
        """There is no session of this id; it may have ended."""
        return cls(1, "Session ID unknown")

    @classmethod
    def bad_method(cls) -> Refusal:
        """Sessions begin with GET."""
        return cls(2, "Bad handshake method")

    @classmethod
    def bad_request(cls) -> Refusal:
        """The request does not fit the state of its session."""
        return cls(3, "Bad request")

    @classmethod
    def forbidden(cls, message: str, status: int = 403) -> Refusal:
        """The handshake is refused."""
        return cls(4, message, status)

    @classmethod
    def unsupported_version(cls) -> Refusal:
        """The client uses another version of engine.io."""
        return cls(5, "Unsupported protocol version")


class Engine:
    """All sessions of one socket.io transport.

    Args:
        options: Times and limits.
        scheduler: Has the time.
        worker_id: The first part of the ids of sessions, by which other workers find the right
            one. None if there is only one process.

    Attributes:
        sessions: Open sessions by id.
        backlog: Limits of the frames that wait for clients.
    """

    def __init__(
        self, options: EngineOptions, scheduler: Scheduler, worker_id: str | None = None
    ) -> None:
        self.options = options
        self.scheduler = scheduler
        self.sessions: dict[str, EngineSession] = {}
        self.backlog = BacklogLimits(options.backlog, options.backlog_bytes)
        self._worker_id = worker_id
        self._sessions_of: dict[str, int] = {}  # by address, only while they are limited

    def new_id(self) -> str:
        """Return an id that nobody can guess."""
        secret = secrets.token_urlsafe(_ID_BYTES)
        return secret if self._worker_id is None else f"{self._worker_id}.{secret}"

    def find(self, sid: str) -> EngineSession:
        """Return a session.

        Raises:
            Refusal: There is none.
        """
        session = self.sessions.get(sid)
        if session is None:
            raise Refusal.unknown_session()
        return session

    def check_room(self, address: str | None) -> None:
        """Check whether another session may begin.

        Raises:
            Refusal: A limit is reached.
        """
        options = self.options
        if options.max_sessions is not None and len(self.sessions) >= options.max_sessions:
            raise Refusal.forbidden("Too many connections", 503)
        limit = options.max_sessions_of_address
        if limit is not None and self._sessions_of.get(address or "", 0) >= limit:
            raise Refusal.forbidden("Too many connections from this address", 429)

    def open(self, transport: Transport, address: str | None) -> EngineSession:
        """Begin a session. The caller then calls `EngineSession.start`.

        Args:
            transport: Its first transport.
            address: The IP address of the client.
        """
        session = EngineSession(self, self.new_id(), transport, address)
        self.sessions[session.id] = session
        if self.options.max_sessions_of_address is not None:
            key = address or ""
            self._sessions_of[key] = self._sessions_of.get(key, 0) + 1
        return session

    def remove(self, session: EngineSession) -> None:
        """Remove a session that has ended."""
        del self.sessions[session.id]
        if self.options.max_sessions_of_address is not None:
            key = session.address or ""
            self._sessions_of[key] -= 1
            if not self._sessions_of[key]:
                del self._sessions_of[key]

    def close(self) -> None:
        """End all sessions, so that their clients connect to another server."""
        for session in tuple(self.sessions.values()):
            session.close("server shutting down")


class EngineSession:
    """The session of one client, over one transport after another.

    Attributes:
        id: The secret id that requests of the client have.
        address: The IP address of the client.
        transport: The current transport.
        receiver: Handles its messages.
        is_open: Whether it has not ended.
        probing: Whether a websocket has been probed, and is about to replace polling.
        is_upgrading: Whether a websocket is open that could replace polling.
    """

    __slots__ = (
        "_awaits_pong",
        "_engine",
        "_queue",
        "_timer",
        "_writable",
        "address",
        "id",
        "is_open",
        "is_upgrading",
        "probing",
        "receiver",
        "transport",
    )
    receiver: Receiver
    _queue: Backlog | None  # None while nothing waits: most connections keep up
    _timer: Timer

    def __init__(self, engine: Engine, sid: str, transport: Transport, address: str | None) -> None:
        self._engine = engine
        self.id = sid
        self.address = address
        self.transport = transport
        self.is_open = True
        self.probing = self.is_upgrading = False
        self._awaits_pong = False
        self._queue = None
        self._timer = engine.scheduler.call_later(engine.options.ping_interval, self._beat)
        self._writable = transport.name == WEBSOCKET  # polls take what is queued

    def start(self, receiver: Receiver, dumps: _wire.Dumps) -> None:
        """Send the handshake."""
        self.receiver = receiver
        options = self._engine.options
        can_upgrade = self.transport.name == POLLING and WEBSOCKET in options.transports
        upgrades = (WEBSOCKET,) if can_upgrade else ()
        times = (options.ping_interval, options.ping_timeout)
        self.send(OpenPacket(self.id, upgrades, *times, options.max_message).encode(dumps))

    # -- frames to the client ------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Send a frame, or queue it while the client does not read. A full queue ends the session.

        This never waits and never raises. Frames for a session that has ended are dropped.
        """
        if self._writable and self._queue is None:
            self._writable = self.transport.write(frame)
            return
        if not self.is_open:
            return
        if self._queue is None:
            self._queue = Backlog(self._engine.backlog)
        if self._queue.add(frame):
            self.transport.wake()
        else:
            self.close("slow reader")

    @property
    def queued(self) -> int:
        """How many frames wait for the client to read."""
        return len(self._queue or ())

    @property
    def has_room(self) -> bool:
        """Whether what can wait for the client should be sent now: the rows of lists, items."""
        return self._queue is None or self._queue.has_room

    def flush(self) -> None:
        """Write the queued frames. The transport calls this when it can write again."""
        self._writable = True
        while self._queue is not None:
            frame = self._queue.pop()
            if not self._queue:
                self._queue = None
            if not self.transport.write(frame):
                self._writable = False
                return
        self.receiver.drained()

    def take_all(self) -> list[Frame]:
        """Take all queued frames, for a polling response."""
        queue, self._queue = self._queue, None
        return [] if queue is None else queue.take_all()

    # -- frames of the client ------------------------------------------------------------------

    def receive(self, frame: Frame, at_once: bool = False) -> Work | None:
        """Handle a frame; return the work that it asks for.

        An invalid frame ends the session.

        Args:
            frame: The frame.
            at_once: As for `Receiver.receive`.
        """
        if not self.is_open:
            return None
        if len(frame) > self._engine.options.max_message:  # the server has limits, too
            self.close("parse error: a message is too large")
        elif isinstance(frame, bytes) or frame.startswith(_wire.MESSAGE):
            try:
                return self.receiver.receive(frame, at_once)
            except ProtocolError as error:
                self.close(f"parse error: {error}")
        elif frame == _wire.PONG:
            if self._awaits_pong:  # nobody asked for other pongs
                self._awaits_pong = False
                self._schedule(self._engine.options.ping_interval)
        elif frame == _wire.CLOSE:
            self.close(CLIENT_LEFT)
        elif frame not in {_wire.NOOP, _wire.UPGRADE}:
            self.close("parse error: not a packet that a client may send")
        return None

    # -- from polling to websocket -------------------------------------------------------------

    def probe(self, frame: Frame, websocket: Transport) -> bool:
        """Handle a frame of a websocket that is to replace polling.

        Args:
            frame: First ``2probe``, then ``5``.
            websocket: Sends the answer to the probe. With ``5`` it becomes the transport.

        Returns:
            Whether the frame was right.
        """
        if not self.is_open or self.transport.name != POLLING:
            return False
        if frame == _wire.PING + "probe":
            self.probing = True
            websocket.write(_wire.PONG + "probe")
            # The client waits for the response to its open request before it goes on.
            self.transport.wake()
            return True
        if frame != _wire.UPGRADE or not self.probing:
            return False
        self.probing = False
        polling, self.transport = self.transport, websocket
        polling.close("upgrade")
        self.flush()
        return True

    # -- heartbeat and end ---------------------------------------------------------------------

    def _schedule(self, delay: float) -> None:
        self._timer.cancel()
        self._timer = self._engine.scheduler.call_later(delay, self._beat)

    def _beat(self) -> None:
        if self._awaits_pong:
            self.close("ping timeout")
            return
        self._awaits_pong = True
        self.send(_wire.PING)
        if self.is_open:  # a full queue has closed it
            self._schedule(self._engine.options.ping_timeout)

    def close(self, reason: str) -> None:
        """End the session. The client may come back with a new one."""
        if not self.is_open:
            return
        self.is_open = self._writable = False
        self._timer.cancel()
        self._engine.remove(self)
        self.transport.close(reason)  # a waiting request still gets the queued frames
        self.take_all()
        self.receiver.closed(reason)
