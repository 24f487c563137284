"""How a client connects over socket.io."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SocketSettings"]


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """How to connect.

    Attributes:
        url: The URL of the websocket, with its query.
        shown_url: The same without the query, which may hold a secret.
        headers: Headers of the handshake.
        auth: Data of the handshake.
        connect_timeout: Seconds in which a connection must be ready, and that a call waits for one.
        max_size: The largest message of the server, in bytes.
        options: Options of ``websockets.connect``.
    """

    url: str
    shown_url: str
    headers: Mapping[str, str]
    auth: Mapping[str, Any]
    connect_timeout: float
    max_size: int
    options: Mapping[str, Any]
