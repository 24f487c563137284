"""socket.io 5 over engine.io 4 as text and bytes, for servers and clients, without any I/O.

Two protocols are stacked. An engine.io packet is one `Frame`: a websocket message, or a part of the
body of a long-polling request. Its text begins with a digit (`OPEN` ... `NOOP`). The text of a
`MESSAGE` is the head of a socket.io packet (`Packet`); the attachments of that packet, binary data,
follow as frames of bytes.

JSON is not written here. Callers pass two functions: `Dumps` moves binary data from a value into a
list of attachments and writes placeholders for it; `Loads` parses, and limits depth and size.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

__all__ = [
    "CLOSE",
    "MAX_ATTACHMENTS",
    "MESSAGE",
    "MESSAGES_EXTENSION",
    "NOOP",
    "OPEN",
    "PING",
    "PONG",
    "UPGRADE",
    "VERSION",
    "Decoder",
    "Dumps",
    "Frame",
    "Loads",
    "OpenPacket",
    "Packet",
    "PacketType",
    "ProtocolError",
    "decode_payload",
    "encode_packet",
    "encode_payload",
    "encode_text",
    "placeholder",
]

Frame: TypeAlias = str | bytes
"""An engine.io packet: text with its digit, or bytes, which are always the data of a message."""

Dumps: TypeAlias = Callable[[Any, list[bytes]], str]
"""``(value, attachments)``: appends binary data of the value to the list, returns JSON text."""

Loads: TypeAlias = Callable[[str], Any]
"""Parses JSON text; raises a ValueError for what is not JSON, or exceeds a limit."""

MESSAGES_EXTENSION: Final = "alula.messages"
"""The scope's ``extensions`` have the websocket of Alula's own server under this name. It offers
messages without ASGI's queue. The name is also the type of the message that wakes up a task which
waits in ``receive``."""

VERSION: Final = "4"
"""The version of engine.io, the parameter ``EIO`` of each request."""

OPEN: Final = "0"
CLOSE: Final = "1"
PING: Final = "2"
PONG: Final = "3"
MESSAGE: Final = "4"
UPGRADE: Final = "5"
NOOP: Final = "6"

MAX_ATTACHMENTS: Final = 10
"""Of a packet; official clients disconnect from a server that sends more."""
MAX_PACKETS_OF_A_PAYLOAD: Final = 10_000

_SEPARATOR: Final = "\x1e"
_BASE64: Final = ord("b")
# Ids of at most 15 digits: JavaScript has no longer exact integers, and they cost less to parse.
_MAX_DIGITS: Final = 15
_HEAD: Final = re.compile(
    rf"(?:([56])([0-9]{{1,3}})-|([0-4]))(?:(/[^,]*),?)?([0-9]{{1,{_MAX_DIGITS}}})?"
)
_EVENT_HEAD: Final = "42"  # a message that is an event, without attachments
_OTHER_DATA: Final = "a packet of the type {} has other data than it may have"

# Names of events that socket.io's own objects emit: a peer must not forge them.
_RESERVED_EVENTS: Final = frozenset(
    ["connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener"]
)


class ProtocolError(ValueError):
    """What arrived is not a packet, or not one that is allowed here. Close the connection."""


class PacketType(IntEnum):
    """The types of socket.io packets, by their digits."""

    CONNECT = 0
    DISCONNECT = 1
    EVENT = 2
    ACK = 3
    CONNECT_ERROR = 4
    BINARY_EVENT = 5
    BINARY_ACK = 6


class Packet(NamedTuple):
    """A socket.io packet.

    Attributes:
        type: `BINARY_EVENT` and `BINARY_ACK` do not occur: attachments are put back into ``data``.
        data: EVENT: a list of the name and the arguments; ACK: a list of arguments; CONNECT: a
            dict or None; CONNECT_ERROR: a dict or a string; DISCONNECT: None.
        id: The number of the acknowledgement that an EVENT asks for, or that an ACK is.
        namespace: ``"/"`` unless the packet names another.
    """

    type: PacketType
    data: Any = None
    id: int | None = None
    namespace: str = "/"


class OpenPacket(NamedTuple):
    """The first packet of a server: the handshake of engine.io.

    Attributes:
        sid: The id of the session.
        upgrades: The transports that the client may change to.
        ping_interval: Seconds between two pings.
        ping_timeout: Seconds in which a pong must arrive.
        max_payload: The largest message that the server takes, in bytes.
    """

    sid: str
    upgrades: tuple[str, ...]
    ping_interval: float
    ping_timeout: float
    max_payload: int

    def encode(self, dumps: Dumps) -> str:
        """Return the packet as a frame."""
        fields = {
            "sid": self.sid,
            "upgrades": list(self.upgrades),
            "pingInterval": round(self.ping_interval * 1000),
            "pingTimeout": round(self.ping_timeout * 1000),
            "maxPayload": self.max_payload,
        }
        return OPEN + dumps(fields, [])

    @classmethod
    def decode(cls, frame: Frame, loads: Loads) -> OpenPacket:
        """Read the first frame of a server.

        Raises:
            ProtocolError: It is another packet, or lacks a field.
        """
        if not isinstance(frame, str) or not frame.startswith(OPEN):
            raise ProtocolError("the first packet of the server does not open a session")
        fields = _parse(loads, frame[1:])
        try:
            return cls(
                str(fields["sid"]),
                tuple(map(str, fields.get("upgrades") or ())),
                float(fields["pingInterval"]) / 1000,
                float(fields["pingTimeout"]) / 1000,
                int(fields.get("maxPayload") or 0),
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise ProtocolError("the server opens a session without its id and its times") from None


# -- bodies of long-polling requests and responses -------------------------------------------------


def encode_payload(frames: Iterable[Frame]) -> bytes:
    """Return the body of a polling request or response that carries ``frames``."""
    return _SEPARATOR.join(
        frame if isinstance(frame, str) else "b" + b64encode(frame).decode() for frame in frames
    ).encode()


def decode_payload(body: bytes, max_packets: int = MAX_PACKETS_OF_A_PAYLOAD) -> list[Frame]:
    """Return the frames of the body of a polling request or response.

    Raises:
        ProtocolError: It is not text, has an empty packet, base64 that is not valid, or more than
            ``max_packets``.
    """
    if body.count(b"\x1e") >= max_packets:
        raise ProtocolError(f"a payload has more than {max_packets} packets")
    parts = body.split(b"\x1e")
    if b"" in parts:
        raise ProtocolError("a payload has an empty packet")
    try:
        return [
            b64decode(part[1:], validate=True) if part[0] == _BASE64 else part.decode()
            for part in parts
        ]
    except binascii.Error:
        raise ProtocolError("a binary packet of a payload is not base64") from None
    except UnicodeDecodeError:
        raise ProtocolError("a payload is not UTF-8") from None


# -- packets of socket.io --------------------------------------------------------------------------


def placeholder(data: bytes, attachments: list[bytes]) -> dict[str, object]:
    """Append binary data to the attachments; return what stands for it in JSON."""
    attachments.append(data)
    return {"_placeholder": True, "num": len(attachments) - 1}


def encode_packet(packet: Packet, dumps: Dumps) -> list[Frame]:
    """Return the frames of a packet: its text, then its attachments.

    Args:
        packet: An EVENT or an ACK with binary data becomes a BINARY_EVENT or a BINARY_ACK.
        dumps: Writes its data.
    """
    kind, data, number, namespace = packet
    attachments: list[bytes] = []
    text = "" if data is None else dumps(data, attachments)
    return encode_text(kind, text, attachments, number, namespace)


def encode_text(
    kind: PacketType,
    text: str,
    attachments: list[bytes],
    number: int | None = None,
    namespace: str = "/",
) -> list[Frame]:
    """Return the frames of a packet whose data is JSON already, as `encode_packet` does."""
    digits = "" if number is None else number
    prefix = "" if namespace == "/" else namespace + ","
    if not attachments:
        return [f"{_BEGINNINGS[kind]}{prefix}{digits}{text}"]
    binary = kind + (PacketType.BINARY_EVENT - PacketType.EVENT)
    return [f"{_BEGINNINGS[binary]}{len(attachments)}-{prefix}{digits}{text}", *attachments]


class Decoder:
    """Puts the packets of one connection together from its frames.

    Args:
        loads: Parses JSON.
        max_attachments: How many a packet may have.
        max_bytes: How many bytes the attachments of one packet may have together, None for any.
    """

    __slots__ = ("_announced", "_attachments", "_loads", "_max_attachments", "_max_bytes", "_size")
    _announced: tuple[int, Packet] | None  # a packet whose attachments have not all arrived

    def __init__(
        self,
        loads: Loads,
        *,
        max_attachments: int = MAX_ATTACHMENTS,
        max_bytes: int | None = None,
    ) -> None:
        self._loads = loads
        self._max_attachments = max_attachments
        self._max_bytes = max_bytes
        self._announced = None
        self._attachments: list[bytes] = []
        self._size = 0

    def decode(self, frame: Frame) -> Packet | None:
        """Take the next frame of a message; return the packet that it completes, if it does.

        Args:
            frame: Text that begins with `MESSAGE`, or bytes.

        Raises:
            ProtocolError: It is not a packet, or not the one that has to come next.
        """
        if isinstance(frame, bytes):
            return self._attach(frame)
        if self._announced is not None:
            raise ProtocolError("a packet arrived in place of announced binary data")
        head = _HEAD.match(frame, 1)
        if head is None:
            raise ProtocolError("a message has no socket.io packet type")
        binary, count, plain, namespace, number = head.groups()
        digit = int(plain or binary)
        text = frame[head.end() :]
        data = _parse(self._loads, text) if text else None
        kind = _KINDS[digit]
        packet = Packet(kind, data, None if number is None else int(number), namespace or "/")
        if not _IS_VALID[digit](data):
            raise ProtocolError(_OTHER_DATA.format(kind.name))
        if binary is None:
            return packet
        if not 0 < int(count) <= self._max_attachments:
            raise ProtocolError(f"a packet has {count} attachments, not 1-{self._max_attachments}")
        self._announced = (int(count), packet)
        return None

    def decode_event(self, frame: Frame) -> tuple[list[Any], int | None] | None:
        """Return the data and the number of an event: as `decode`, at half its instructions.

        Returns:
            None if `decode` has to take the frame: it is another packet or belongs to one, or it
            names a namespace.

        Raises:
            ProtocolError: As for `decode`.
        """
        if isinstance(frame, bytes) or not frame.startswith(_EVENT_HEAD) or self._announced:
            return None
        number, at = None, frame.find("[")
        if at != 2:
            digits = frame[2:at]
            if not 2 < at <= 2 + _MAX_DIGITS or not (digits.isascii() and digits.isdigit()):
                return None
            number = int(digits)
        try:
            data = self._loads(frame[at:])
        except ValueError as error:
            raise _not_json(error) from None
        if not _is_event(data):
            raise ProtocolError(_OTHER_DATA.format("EVENT"))
        return data, number

    def _attach(self, data: bytes) -> Packet | None:
        if self._announced is None:
            raise ProtocolError("binary data arrived that no packet announced")
        self._size += len(data)
        if self._max_bytes is not None and self._size > self._max_bytes:
            raise ProtocolError(f"the attachments of a packet have over {self._max_bytes} bytes")
        self._attachments.append(data)
        count, packet = self._announced
        if len(self._attachments) < count:
            return None
        attachments = self._attachments
        self._announced, self._attachments, self._size = None, [], 0
        # As many placeholders as attachments may be: one attachment in a thousand places would be
        # sent a thousand times to each client that gets the record.
        places = iter(range(self._max_attachments))
        return packet._replace(data=_with_attachments(packet.data, attachments, places))


def _parse(loads: Loads, text: str) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        raise _not_json(error) from None


def _not_json(error: ValueError) -> ProtocolError:
    return ProtocolError(f"the data of a packet is not JSON: {error}")


def _with_attachments(
    value: dict[str, Any] | list[Any] | str | None, attachments: list[bytes], places: Iterator[int]
) -> Any:
    """Return ``value`` with binary data in place of its placeholders, one for each place."""
    if isinstance(value, list):
        return [_with_attachments(item, attachments, places) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("_placeholder") is True:
        number = value.get("num")
        if type(number) is not int or not 0 <= number < len(attachments):
            raise ProtocolError("a placeholder has no attachment")
        if next(places, None) is None:
            raise ProtocolError("a packet has more placeholders than it may have attachments")
        return attachments[number]
    return {name: _with_attachments(item, attachments, places) for name, item in value.items()}


def _is_event(data: list[Any] | dict[str, Any] | str | None) -> bool:
    # A number is a valid name for socket.io; who takes the event decides what it means.
    if not isinstance(data, list) or not data:
        return False
    name = data[0]
    if isinstance(name, str):
        return name not in _RESERVED_EVENTS
    return isinstance(name, int | float) and not isinstance(name, bool)


# By digit, since an f-string formats the member of an enum slowly.
_BEGINNINGS: Final = [f"{MESSAGE}{kind:d}" for kind in PacketType]

_KINDS: Final = [
    PacketType.CONNECT,
    PacketType.DISCONNECT,
    PacketType.EVENT,
    PacketType.ACK,
    PacketType.CONNECT_ERROR,
    PacketType.EVENT,
    PacketType.ACK,  # of what the digits 4-6 become
]
# By digit: a look-up by the type would call the hash of an enum, which is written in Python.
_IS_VALID: Final[list[Callable[[Any], bool]]] = [
    lambda data: data is None or isinstance(data, dict),
    lambda data: data is None,
    _is_event,
    lambda data: isinstance(data, list),
    lambda data: isinstance(data, str | dict),
    _is_event,
    lambda data: isinstance(data, list),
]
