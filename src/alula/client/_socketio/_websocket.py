"""Opening a websocket with the library websockets."""

from __future__ import annotations

import ssl
from typing import Any, Final

from alula.client._codec import Response, with_request_error
from alula.client._socketio._session import Refused, SocketRequest
from alula.client._socketio._settings import SocketSettings
from alula.errors import (
    BadGateway,
    FrameworkError,
    GeneralError,
    NotFound,
    Unavailable,
    error_for_status,
)

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import InvalidStatus, InvalidURI
except ImportError as error:
    raise ImportError(
        "socketio() needs websockets, which is not installed;"
        " install it with: pip install 'alula[realtime]'"
    ) from error

__all__ = ["open_websocket"]

_CLOSE_TIMEOUT: Final = 1.0  # seconds that a server has to agree to the end of a connection
_MAY_PASS: Final = frozenset({408, 425, 429})
"""Statuses of a handshake, besides 5xx, after which another attempt may succeed."""


class _Connect(connect):
    """Does not follow redirects: headers with credentials are for the server that was named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_websocket(settings: SocketSettings) -> ClientConnection:
    """Open a websocket.

    Raises:
        Refused: The server responds that it does not want this connection, its certificate or the
            options are not valid; another attempt would end the same way.
        OSError: The server cannot be reached.
        WebSocketException: It does not speak websocket, or not now.
    """
    options: dict[str, Any] = {
        # As the servers of socket.io: for small messages it costs more than it saves.
        "compression": None,
        # Pings of engine.io tell whether the other side is alive.
        "ping_interval": None,
        # `asyncio.timeout_at` bounds the whole way to a connection that takes calls.
        "open_timeout": None,
        "close_timeout": _CLOSE_TIMEOUT,
        "max_size": settings.max_size,
        **settings.options,
        "additional_headers": settings.headers,
    }
    try:
        return await _Connect(settings.url, **options)
    except InvalidStatus as error:
        status = error.response.status_code
        if status >= 500 or status in _MAY_PASS:
            raise
        raise Refused(_refusal(settings, status, bytes(error.response.body or b""))) from error
    except ssl.SSLCertVerificationError as error:
        unverified = Unavailable("the certificate of the called server is not valid")
        unverified.args = (f"{unverified.message}: {error}",)
        raise Refused(unverified) from error
    except (TypeError, ValueError, InvalidURI) as error:
        text = f"the websocket cannot be opened with these options: {error}"
        raise Refused(GeneralError(text)) from error


def _refusal(settings: SocketSettings, status: int, body: bytes) -> FrameworkError:
    if 300 <= status < 400:
        error: FrameworkError = BadGateway("the called server responded with a redirect")
        what = "redirects are not followed; give the URL that they lead to"
    elif status == NotFound.code:
        error = NotFound("the called server has no real time at this path")
        what = "give the server a socket.io transport, or its path: socketio(url, path=...)"
    else:
        error = error_for_status(status)(
            f"the called server refuses the connection with status {status}", code=status
        )
        what = body[:200].decode("utf-8", "replace") or "it does not say why"
    request = SocketRequest("connect", settings.shown_url, (), repeatable=False)
    return with_request_error(
        error, request, f"got status {status}; {what}", Response(status, {}, body)
    )
