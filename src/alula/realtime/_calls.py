"""Calls over socket.io: the arguments of an event -> a service call -> an acknowledgement.

The client sends ``(method, path, ...arguments, query)``, the answer is ``(error)`` or
``(null, result)``. Every call gets an answer: a 400, 404 or 405 where no method can be called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from alula._app import App
from alula._channels import call_params
from alula._connection import Connection, begin_call
from alula._context import HookContext
from alula._json_encoding import dumps_with_attachments
from alula._public_error import public_error
from alula._service import ServiceHandle
from alula._shares import Shares
from alula._wire import Frame, Packet, PacketType, encode_packet, encode_text
from alula.errors import (
    BadRequest,
    FrameworkError,
    GeneralError,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
)
from alula.realtime._engine import Scheduler
from alula.realtime._socket_options import SocketOptions
from alula.types import UNSET

__all__ = [
    "CallsUnderWay",
    "call_context",
    "encode_error",
    "encode_result",
    "log_error",
    "run_call",
]

_log: Final = logging.getLogger("alula.realtime")

# Whether a method takes an id, and data. Custom methods take data.
_ARGUMENTS: Final = {
    "find": (False, False),
    "get": (True, False),
    "create": (False, True),
    "update": (True, True),
    "patch": (True, True),
    "remove": (True, False),
}
_OF_CUSTOM_METHODS: Final = (False, True)

# As a tuple: the union `str | int | ...` would be made anew for each call.
_ID_TYPES: Final = (str, int, float, type(None))

_ACK: Final = PacketType.ACK  # looked up once

MAX_PATH_LENGTH: Final = 4_096

MIN_CALL_BYTES: Final = 4096
"""What a call counts at least: its task and its params take that much."""


class CallsUnderWay:
    """The calls of one client that have not ended, also after it has left.

    Binary data of a call that has not arrived completely counts too.

    Args:
        options: How many there may be, and how many bytes they may have.
        shares: The bytes of all clients.
        address: The client to whose share they count, None if it is not known.
        scheduler: Gives the time.

    Attributes:
        held: The bytes of binary data that is not complete.
    """

    __slots__ = (
        *("_address", "_bytes", "_count", "_options", "_scheduler", "_shares"),
        *("_tokens", "_tokens_at", "held"),
    )

    def __init__(
        self, options: SocketOptions, shares: Shares, address: str | None, scheduler: Scheduler
    ) -> None:
        self._options = options
        self._shares = shares
        self._address = address
        self._scheduler = scheduler
        self._count = self._bytes = self.held = 0
        self._tokens = options.max_call_rate or 0.0
        self._tokens_at = 0.0

    def begin(self, size: int, *, is_rated: bool = True) -> int:
        """Count a further call, and return what `end` takes.

        Args:
            size: How many bytes arrived for it.
            is_rated: Whether it counts among the calls of a second.

        Raises:
            TooManyRequests: A limit is reached.
        """
        limits = self._options
        if self._count >= limits.max_calls:
            raise TooManyRequests(f"More than {limits.max_calls} calls are under way")
        size = max(size, MIN_CALL_BYTES)
        if self._bytes + size > limits.max_call_bytes:
            raise TooManyRequests(f"The calls under way have over {limits.max_call_bytes} bytes")
        if is_rated and limits.max_call_rate is not None:
            self._check_rate(limits.max_call_rate)
        if not self._shares.take(self._address, size):
            raise TooManyRequests("The calls under way of all clients have too many bytes")
        self._count += 1
        self._bytes += size
        return size

    def _check_rate(self, rate: float) -> None:
        now = self._scheduler.time()
        passed, self._tokens_at = now - self._tokens_at, now
        self._tokens = min(max(rate, 1.0), self._tokens + passed * rate)
        if self._tokens < 1:
            raise TooManyRequests(f"More than {rate:g} calls a second")
        self._tokens -= 1

    def end(self, size: int) -> None:
        """Count a call no more."""
        self._shares.give_back(self._address, size)
        self._count -= 1
        self._bytes -= size

    def hold(self, size: int) -> bool:
        """Count binary data of a call that is not complete; return whether there is room for it."""
        if self._bytes + size > self._options.max_call_bytes:
            return False
        if not self._shares.take(self._address, size):
            return False
        self._bytes += size
        self.held += size
        return True

    def release(self) -> int:
        """Count such data no more, since the call is complete or dropped; return its size."""
        held, self.held = self.held, 0
        self._shares.give_back(self._address, held)
        self._bytes -= held
        return held


def call_context(app: App, connection: Connection, event: Sequence[Any]) -> HookContext:
    """Return the context of the call that an event asks for.

    Args:
        app: The application.
        connection: The connection of the client.
        event: The name of a method, the path of a service, and arguments.

    Raises:
        NotFound: There is no such service.
        MethodNotAllowed: The service does not offer the method to clients.
        BadRequest: Arguments are missing, too many, or of another type.
        NotAuthenticated: The connection was signed in, and its token has expired.
    """
    method, path = event[0], event[1] if len(event) > 1 else None
    handle, route = _service_at(app, path)
    if not isinstance(method, str) or method not in handle.methods:
        raise MethodNotAllowed(f"Method '{method}' not allowed on service '{path}'")
    takes_id, takes_data = _ARGUMENTS.get(method, _OF_CUSTOM_METHODS)
    given, expected = len(event) - 2, takes_id + takes_data
    if given > expected + 1:
        raise BadRequest(f"Too many arguments for '{method}' method")
    record_id = None
    if takes_id:
        # As over REST, data may be missing where nothing is changed by it.
        if given < expected:
            missing = " and ".join(("id", "data")[given:expected])
            raise BadRequest(f"Too few arguments for '{method}' method: {missing} missing")
        record_id = event[2]
        if not isinstance(record_id, _ID_TYPES) or isinstance(record_id, bool):
            raise BadRequest("An id has to be a string or a number")
        if record_id is None and method == "get":
            raise BadRequest("id for 'get' can not be null")
    query: dict[str, Any] | None = event[2 + expected] if given > expected else None
    if query is None:
        query = {}
    elif not isinstance(query, dict):
        raise BadRequest("A query has to be an object")
    data: Any = None
    if takes_data:
        data = event[1 + expected] if given >= expected else {}
    params = call_params(connection, query, route)
    return HookContext(handle.app, handle, method, params, record_id, data)


def _service_at(app: App, path: object) -> tuple[ServiceHandle, dict[str, str]]:
    # Decoding the path of a whole message takes a quarter of a second.
    if not isinstance(path, str) or len(path) > MAX_PATH_LENGTH:
        raise NotFound("Invalid service path")
    # A path over a socket is not percent-encoded, and names no record.
    match = app.routes.find(path.replace("%", "%25"))
    if match is None or match[1] is not None:
        raise NotFound(f"Service '{path}' not found")
    return match[0], match[2]


async def run_call(
    context: HookContext,
    connection: Connection,
    packet_id: int | None,
    send: Callable[[list[Frame]], None],
    under_way: CallsUnderWay,
    size: int,
    *,
    debug: bool,
) -> None:
    """Run a call, and send its acknowledgement if the client asks for one.

    Args:
        context: The call.
        connection: The connection of the client.
        packet_id: The number of the acknowledgement, None for none.
        send: Sends the frames of a packet; it drops them if the client has left.
        under_way: The calls of the client; this one ends there.
        size: What it counts there.
        debug: Whether clients see the messages of unexpected errors.
    """
    begin_call(connection)
    try:
        await context.service.run(context)
        if packet_id is not None:
            body = context.result if context.dispatch is UNSET else context.dispatch
            send(encode_result(packet_id, body))
    # Whatever a service raises, its client gets an answer.
    except Exception as error:  # noqa: BLE001  # it is logged
        log_error(error, f"{context.method} {context.path}")
        if packet_id is not None:
            send(encode_error(packet_id, public_error(error, debug=debug)))
    finally:
        under_way.end(size)


def encode_result(packet_id: int, result: object) -> list[Frame]:
    """Return the acknowledgement of a call that succeeded.

    Raises:
        TypeError: The result has no JSON form.
    """
    attachments: list[bytes] = []
    text = dumps_with_attachments(None if result is UNSET else result, attachments)
    return encode_text(_ACK, f"[null,{text}]", attachments, packet_id)


def encode_error(packet_id: int, error: FrameworkError) -> list[Frame]:
    """Return the acknowledgement of a call that failed."""
    body = error.to_dict()
    try:
        return encode_packet(Packet(PacketType.ACK, [body], packet_id), dumps_with_attachments)
    # Values may fail in any way while they are turned into JSON.
    except Exception:  # noqa: BLE001  # it is logged
        _log.exception("the data of an error has no JSON form; it was left out")
        plain = {name: body[name] for name in ("name", "message", "code", "className")}
        return encode_packet(Packet(PacketType.ACK, [plain], packet_id), dumps_with_attachments)


def log_error(error: Exception, what: str) -> None:
    """Log the failure of a call or a join: unexpected ones with their stack, others in a line."""
    if not isinstance(error, FrameworkError) or type(error) is GeneralError:
        _log.error("%s over socket.io failed", what, exc_info=error)
        return
    level = logging.ERROR if error.code >= 500 else logging.INFO
    # Texts of clients must not add lines to a log, nor fill it.
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(error)[:1_000])
    _log.log(level, "%s over socket.io: %s: %s", what, type(error).__name__, text)
