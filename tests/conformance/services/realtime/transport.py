"""The transports of both apps, and the middleware that every connection passes."""

from __future__ import annotations

from typing import Any

from alula.errors import BadRequest, Forbidden
from alula.realtime import socketio


def main_transport() -> Any:
    """Return the transport of the main app, with every option at its default."""
    transport = socketio()
    transport.use(read_query)
    return transport


def second_transport() -> Any:
    """Return a transport with short timeouts, small messages, CORS and a check of handshakes."""
    transport = socketio(
        "/ws/",
        ping_interval=0.5,
        ping_timeout=0.4,
        join_timeout=0.5,
        max_message=2000,
        origins=["http://allowed.example"],
        admit=lambda handshake: "not today" if "x-refuse" in handshake.headers else None,
    )
    transport.use(read_query)
    return transport


async def read_query(connection, handshake, next):
    """Take the name and the first channels of a connection from the query of its handshake."""
    query = handshake.query
    refuse = query.get("refuse")
    if refuse == "forbidden":
        raise Forbidden("no entry", {"why": "because"})
    if refuse:
        raise BadRequest(f"refused: {refuse}", {"reason": refuse})
    connection.name = query.get("name")
    names = query.get("channels")
    connection.first_channels = names.split(",") if names else []
    await next()
