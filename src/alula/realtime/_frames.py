"""The JSON of packets, and events as frames."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from alula._connection import EventMessage
from alula._json_encoding import MAX_CONTAINERS, dumps_with_attachments, loads
from alula._wire import Frame, Packet, PacketType, encode_packet
from alula.errors import BadRequest
from alula.realtime._engine import Session
from alula.types import is_list

__all__ = ["encode_event", "event_name", "log_unencodable", "parse_json", "send_packet"]

_log: Final = logging.getLogger("alula.realtime")

# Takes halves of surrogate pairs, and any number of levels and objects. Numbers stay text: to read
# a long one takes long.
_ANY_JSON: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def parse_json(text: str) -> Any:
    """Return the value of a packet's JSON, within the limits of REST's bodies.

    Returns:
        Of a call that is JSON but not within the limits, the name and a `BadRequest`, which
        `call_context` raises: the caller gets it, and other calls go on.

    Raises:
        ValueError: It is not JSON, nested too deeply, or has too many objects and lists.
    """
    try:
        return loads(text.encode(), MAX_CONTAINERS)
    except ValueError as error:
        try:
            value = _ANY_JSON.decode(text)
        except RecursionError:
            raise error from None
        if not is_list(value) or not value:
            raise
        return [value[0], BadRequest(f"The arguments are not valid JSON: {error}")]


def encode_event(message: EventMessage) -> list[Frame]:
    """Return the frames of an event, none if its data has no JSON form."""
    packet = Packet(PacketType.EVENT, [event_name(message), message.data])
    try:
        return encode_packet(packet, dumps_with_attachments)
    except Exception:  # noqa: BLE001  # of the user's types; the call that it follows must not fail
        log_unencodable(message)
        return []


def event_name(message: EventMessage) -> str:
    """Return the name by which clients of FeathersJS listen: ``messages created``.

    A service at the root has the path ``/`` there.
    """
    return f"{message.path or '/'} {message.event}"


def log_unencodable(message: EventMessage) -> None:
    """Log that an event was not sent, in the handler of its error."""
    _log.exception(
        "the event %s of %r was not sent: its data has no JSON form", message.event, message.path
    )


def send_packet(session: Session, packet: Packet) -> None:
    """Send a packet of the server."""
    for frame in encode_packet(packet, dumps_with_attachments):
        session.send(frame)
