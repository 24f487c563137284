"""One client's side of socket.io, over one connection after the other, without any I/O.

The transport passes in what arrives and writes what `Session.frames` holds. A session outlives its
connections: it knows up to where events arrived, so that a server with connection state recovery
sends those that were missed.
"""

from __future__ import annotations

import enum
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from alula._wire import (
    CLOSE,
    MESSAGE,
    PING,
    PONG,
    Decoder,
    Frame,
    OpenPacket,
    Packet,
    PacketType,
    ProtocolError,
    encode_packet,
    placeholder,
)
from alula.client._codec import Response, Sendable, error_of_json
from alula.client._connection import StoredSignIn
from alula.client._failures import connection_failed
from alula.client._json import to_json
from alula.client._socketio._arriving_items import ArrivingItems
from alula.client._socketio._errors import connection_lost, too_large_to_send
from alula.errors import FrameworkError
from alula.types import JSONValue, is_mapping

__all__ = ["LEAVE", "Answer", "Refused", "Session", "SessionEnded", "SocketRequest", "Subscriber"]

LEAVE: Final = f"{MESSAGE}{PacketType.DISCONNECT:d}"
"""The frame of a client that goes for good: the server need not keep events for it."""

_MAX_ATTACHMENTS: Final = 999  # what the head of a packet has room for
_MOST_BYTES_OF_A_CHARACTER: Final = 4
_NO_ERROR: Final = (None, False)


class SocketRequest:
    """A call of a service.

    Attributes:
        method: The name of the method.
        url: The URL of the service, for error texts.
        arguments: The method, the path, and the arguments of the method.
        repeatable: Whether it may be sent twice, since it changes nothing.
        is_sent: Whether it was sent.
    """

    __slots__ = ("arguments", "is_sent", "method", "repeatable", "url")

    def __init__(
        self, method: str, url: str, arguments: Sequence[object], *, repeatable: bool
    ) -> None:
        self.method = method
        self.url = url
        self.arguments = arguments
        self.repeatable = repeatable
        self.is_sent = False


class Answer(NamedTuple):
    """What a server acknowledges a call with.

    Attributes:
        error: The JSON of an error, None without one.
        result: The result.
    """

    error: JSONValue
    result: object

    @property
    def stream(self) -> str | None:
        """The name of the stream that the result is, None for any other result."""
        result = self.result
        name = result.get("$stream") if is_mapping(result) and len(result) == 1 else None
        return name if isinstance(name, str) else None

    @property
    def status(self) -> int:
        """The status: that of the error, or 200."""
        if self.error in _NO_ERROR:
            return 200
        code = self.error.get("code") if is_mapping(self.error) else None
        return code if type(code) is int else 500

    @property
    def headers(self) -> Mapping[str, str]:
        """None: socket.io has no headers of responses."""
        return {}

    def read(self, request: Sendable) -> object:
        """Return the result.

        Raises:
            FrameworkError: The error of the server.
        """
        if self.error in _NO_ERROR:
            return self.result
        status = self.status if 400 <= self.status < 600 else 500
        body = to_json(self.error, encode_bytes=repr).encode()
        raise error_of_json(request, self.error, Response(status, {}, body))


class Refused(Exception):
    """The server refuses the connection. Another attempt would end the same way.

    Attributes:
        error: Why.
    """

    def __init__(self, error: FrameworkError) -> None:
        super().__init__(str(error))
        self.error = error


class SessionEnded(Exception):
    """The connection is of no more use; another one may be."""


class Subscriber(Protocol):
    """Whom a session tells what happens."""

    def event(self, path: str, name: str, data: object) -> None:
        """Take an event of the service at a path."""
        ...

    def stored_sign_in(self) -> StoredSignIn | None:
        """Return the sign-in to renew, None without one."""
        ...


class Owner(Subscriber, Protocol):
    """What writes the frames of a session, and passes on what it tells."""

    def has_frames(self) -> None:
        """Learn that there are frames to write, which nothing that was passed in has caused."""
        ...


class _Sent(NamedTuple):
    request: SocketRequest
    settle: Callable[[Answer | FrameworkError | None], None]


class _Phase(enum.Enum):
    """How far a connection has come."""

    AWAY = "away"
    OPENING = "opening"  # of engine.io
    JOINING = "joining"  # the namespace of socket.io
    SIGNING_IN = "signing in"
    READY = "ready"


class Session:
    """The protocol of a client.

    Args:
        owner: What writes its frames, and whom it tells of events.
        auth: Data for the handshake, which middleware of the server may read.
        max_size: The largest data of a packet, in bytes.

    Attributes:
        frames: The frames to write, in order.
        silence: Seconds without a frame after which the connection is dead.
        recovered: Whether the server sent all events that were missed since the last connection.
    """

    def __init__(self, owner: Owner, auth: Mapping[str, Any], max_size: int) -> None:
        self.frames: deque[Frame] = deque()
        self.silence = 0.0
        self.recovered = False
        self._owner = owner
        self._auth = auth
        self._max_size = max_size
        self._phase = _Phase.AWAY
        self._decoder = self._new_decoder()
        self._max_payload = 0
        self._last_id = 0
        self._sent: dict[int, _Sent] = {}
        self._streams: dict[str, ArrivingItems] = {}
        # Of connection state recovery: a secret of the session, and where its events have got to.
        self._pid: str | None = None
        self._offset: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether calls can be sent."""
        return self._phase is _Phase.READY

    # -- connections ---------------------------------------------------------------------------

    def opened(self) -> None:
        """Begin with a new connection."""
        self._phase = _Phase.OPENING
        self._decoder = self._new_decoder()

    def closed(self, reason: str) -> None:
        """Settle the calls whose responses cannot arrive any more.

        Calls that may be repeated are settled with None: send them again.
        """
        self._phase = _Phase.AWAY
        self.frames.clear()
        sent, self._sent = self._sent, {}
        for request, settle in sent.values():
            settle(None if request.repeatable else connection_lost(request, reason))
        streams, self._streams = self._streams, {}
        for items in streams.values():
            items.end(connection_failed(items.request, ConnectionError(reason)))

    def receive(self, frame: Frame) -> None:
        """Take a frame of the server.

        Raises:
            ProtocolError: It is not what a server sends here.
            Refused: The server refuses the connection.
            SessionEnded: The server ended the session.
        """
        if isinstance(frame, str) and not frame.startswith(MESSAGE):
            self._receive_control(frame)
            return
        if self._phase is _Phase.OPENING:
            raise ProtocolError("the server sends messages before it opens a session")
        packet = self._decoder.decode(frame)
        if packet is None or packet.namespace != "/":
            return
        if packet.type is PacketType.EVENT:
            self._take_event(packet.data)
        elif packet.type is PacketType.ACK:
            self._take_answer(packet.id or 0, Answer(*[*packet.data, None, None][:2]))
        elif packet.type is PacketType.CONNECT:
            self._join(packet.data or {})
        elif packet.type is PacketType.CONNECT_ERROR:
            raise Refused(_refusal(packet.data))
        else:
            raise SessionEnded("the server disconnected this client")

    def _receive_control(self, frame: str) -> None:
        if frame.startswith(PING):
            self.frames.append(PONG + frame[1:])
            for items in self._streams.values():
                items.wait_on()
        elif frame.startswith(CLOSE):
            raise SessionEnded("the server closed the session")
        elif self._phase is _Phase.OPENING:
            opened = OpenPacket.decode(frame, _loads)
            self.silence = opened.ping_interval + opened.ping_timeout
            self._max_payload = opened.max_payload
            self._phase = _Phase.JOINING
            recovery = {"pid": self._pid, "offset": self._offset} if self._pid else {}
            # As the official client: what it does not know it leaves out.
            data = {key: value for key, value in recovery.items() if value is not None}
            packet = Packet(PacketType.CONNECT, {**data, **self._auth} or None)
            self.frames.extend(encode_packet(packet, _dumps))

    def _join(self, data: Mapping[str, Any]) -> None:
        pid = data.get("pid")
        self.recovered = pid is not None and pid == self._pid
        if not self.recovered:
            self._pid, self._offset = (pid if isinstance(pid, str) else None), None
        sign_in = self._owner.stored_sign_in()
        if sign_in is None:
            self._phase = _Phase.READY
            return
        self._phase = _Phase.SIGNING_IN
        arguments = ["create", sign_in.path, sign_in.credentials(), {}]
        request = SocketRequest("create", sign_in.path, arguments, repeatable=False)

        def settle(outcome: Answer | FrameworkError | None) -> None:
            if not isinstance(outcome, Answer):  # the connection broke
                return
            try:
                result = outcome.read(request)
            except FrameworkError as error:
                if not sign_in.rejected(error):
                    # Calls that wait were made by somebody who is signed in: they must not be sent
                    # as if they came from somebody who is not.
                    raise SessionEnded(f"the sign-in could not be renewed: {error}") from error
            else:
                sign_in.renewed(result)
            self._phase = _Phase.READY

        self._add(request, settle, self.encode(request))

    def _take_answer(self, call_id: int, answer: Answer) -> None:
        sent, name = self._sent.pop(call_id, None), answer.stream
        if name in self._streams:  # a record that looks like it: each stream has a name of its own
            name = None
        if name is not None and sent is None:
            self._tell("stream:end", name)
        elif name is not None and sent is not None:
            # Now: its items may be in the next frame.
            items = ArrivingItems(sent.request, partial(self._tell_of, name))
            self._streams[name] = items
            sent.settle(Answer(None, items))
        elif sent is not None:  # otherwise its caller has given up
            sent.settle(answer)

    def _tell_of(self, name: str, items: ArrivingItems, event: str, *values: object) -> None:
        """Tell the server of a stream, unless its connection has ended."""
        if self._streams.get(name) is items:
            if items.is_over:
                del self._streams[name]
            self._tell(event, name, *values)
            self._owner.has_frames()

    def _tell(self, *event: object) -> None:
        self.frames.extend(encode_packet(Packet(PacketType.EVENT, [*event]), _dumps))

    def _take_event(self, data: list[Any]) -> None:
        name, *values = data
        if name == "stream":
            key = values[0] if values and isinstance(values[0], str) else ""
            items = self._streams.get(key)
            if items is not None:  # otherwise its reader has left
                items.take(values[1:])
                if items.is_over:
                    self._streams.pop(key, None)
            return
        # With recovery, servers append an offset to each event. FeathersJS sends one value.
        if self._pid is not None and values and isinstance(values[-1], str):
            self._offset = values.pop()
        path, _, event = str(name).partition(" ")
        if event:
            self._owner.event(path, event, values[0] if values else None)

    # -- calls ---------------------------------------------------------------------------------

    def encode(self, request: SocketRequest) -> tuple[int, list[Frame]]:
        """Return a new id for a call, and its frames.

        Raises:
            TypeError: A value cannot be sent.
            ValueError: A number is not finite, or data contain themselves.
        """
        self._last_id += 1
        packet = Packet(PacketType.EVENT, list(request.arguments), self._last_id)
        return self._last_id, encode_packet(packet, _dumps)

    def send(
        self,
        request: SocketRequest,
        encoded: tuple[int, list[Frame]],
        settle: Callable[[Answer | FrameworkError | None], None],
    ) -> None:
        """Send a call.

        Args:
            request: The call.
            encoded: What `encode` returned for it.
            settle: Called once, with the response, with the error if the connection broke before,
                or with None if it did so and the call may be sent again.

        Raises:
            PayloadTooLarge: The server would close the connection over it.
        """
        limit = self._max_payload
        for frame in encoded[1] if limit else ():
            # Most are far below the limit, and need not be encoded to know that.
            if len(frame) * _MOST_BYTES_OF_A_CHARACTER > limit:
                size = len(frame.encode() if isinstance(frame, str) else frame)
                if size > limit:
                    raise too_large_to_send(request, limit)
        self._add(request, settle, encoded)

    def _add(
        self,
        request: SocketRequest,
        settle: Callable[[Answer | FrameworkError | None], None],
        encoded: tuple[int, list[Frame]],
    ) -> None:
        call_id, frames = encoded
        self._sent[call_id] = _Sent(request, settle)
        request.is_sent = True
        self.frames.extend(frames)

    def forget(self, call_id: int) -> None:
        """Ignore the response to a call, whose caller has given up."""
        self._sent.pop(call_id, None)

    def _new_decoder(self) -> Decoder:
        return Decoder(_loads, max_attachments=_MAX_ATTACHMENTS, max_bytes=self._max_size)


def _refusal(data: object) -> FrameworkError:
    """Return the error in a CONNECT_ERROR packet: ``message``, and ``data`` that may name it."""
    given: Mapping[str, Any] = data if is_mapping(data) else {"message": str(data)}
    details: JSONValue = given.get("data")
    value = {"name": "Forbidden", "code": 403, **given}
    if isinstance(details, Mapping) and "className" in details:  # the error of a middleware, whole
        value = {"message": given.get("message"), **details}
    request = SocketRequest("connect", "socket.io", (), repeatable=False)
    error = error_of_json(request, value, Response(403, {}, b""))
    error.args = (error.message,)
    return error


def _dumps(value: Any, attachments: list[bytes]) -> str:
    def encode(data: bytes) -> dict[str, object]:
        return placeholder(data, attachments)

    text = to_json(value, encode_bytes=encode)
    try:
        text.encode()
    # A lone surrogate, half of a character in UTF-16: UTF-8 has no form for it, JSON an escape.
    except UnicodeEncodeError:
        attachments.clear()
        text = to_json(value, encode_bytes=encode, ensure_ascii=True)
    return text


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it has too many levels") from None
