"""Calls over socket.io: the arguments of an event -> a service call -> an acknowledgement.

The client sends ``(method, path, ...arguments, query)``, the answer is ``(error)`` or
``(null, result)``. Every call gets an answer: a 400, 404 or 405 where no method can be called.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from alula._app import App
from alula._channels import call_params
from alula._connection import Connection, begin_call
from alula._context import HookContext
from alula._json_encoding import dumps_with_attachments
from alula._public_error import log_text, public_error
from alula._routes import RouteTable
from alula._service import ServiceHandle
from alula._shares import Shares
from alula._wire import MESSAGE, Frame, Packet, PacketType, encode_packet, encode_text
from alula.errors import (
    BadRequest,
    FrameworkError,
    GeneralError,
    MethodNotAllowed,
    NotFound,
    TooManyRequests,
)
from alula.logs._repeats import RepeatLimit
from alula.realtime._engine import Scheduler, Session
from alula.realtime._handshake import SocketOptions
from alula.types import UNSET

__all__ = [
    "ENDED",
    "CallsUnderWay",
    "call_context",
    "encode_error",
    "encode_result",
    "go_on",
    "log_error",
    "run_call",
]

_log: Final = logging.getLogger("alula.realtime")
_repeats: Final = RepeatLimit()

# Whether a method takes an id, and data, and where the query is in the event.
_ARGUMENTS: Final = {
    "find": (False, False, 2),
    "get": (True, False, 3),
    "create": (False, True, 3),
    "update": (True, True, 4),
    "patch": (True, True, 4),
    "remove": (True, False, 3),
}
_OF_CUSTOM_METHODS: Final = (False, True, 3)

# As a tuple: the union `str | int | ...` would be made anew for each call.
_ID_TYPES: Final = (str, int, float, type(None))

_ACK: Final = PacketType.ACK  # looked up once
_ACK_HEAD: Final = f"{MESSAGE}{_ACK:d}"

ENDED: Final = object()
"""What `next` returns for the first step of a coroutine that has ended: `send` would raise."""

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
        "_address",
        "_bytes",
        "_count",
        "_options",
        "_scheduler",
        "_shares",
        "_tokens",
        "_tokens_at",
        "held",
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

    def check(self, size: int, *, is_rated: bool = True) -> int:
        """Check that there is room for a further call; return what `begin` and `end` take.

        Args:
            size: How many bytes arrived for it.
            is_rated: Whether it counts among the calls of a second, from now on.

        Raises:
            TooManyRequests: A limit is reached.
        """
        limits = self._options
        if self._count >= limits.max_calls:
            raise TooManyRequests(f"More than {limits.max_calls} calls are under way")
        if size < MIN_CALL_BYTES:  # noqa: PLR1730  # `max` takes 400 instructions more
            size = MIN_CALL_BYTES
        if self._bytes + size > limits.max_call_bytes:
            raise TooManyRequests(f"The calls under way have over {limits.max_call_bytes} bytes")
        if is_rated and limits.max_call_rate is not None:
            self._check_rate(limits.max_call_rate)
        if not self._shares.has_room(self._address, size):
            raise TooManyRequests("The calls under way of all clients have too many bytes")
        return size

    def begin(self, size: int) -> None:
        """Count a call. There is room for it: nothing has happened since its `check`."""
        self._shares.take(self._address, size)
        self._count += 1
        self._bytes += size

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


def call_context(
    routes: RouteTable[ServiceHandle], connection: Connection, event: Sequence[Any]
) -> HookContext:
    """Return the context of the call that an event asks for.

    Args:
        routes: Those of the application.
        connection: The connection of the client.
        event: The name of a method, the path of a service, and arguments.

    Raises:
        NotFound: There is no such service.
        MethodNotAllowed: The service does not offer the method to clients.
        BadRequest: Arguments are missing, too many, of another type, or refused by `parse_json`.
        NotAuthenticated: The connection was signed in, and its token has expired.
    """
    size = len(event)
    method, path = event[0], event[1] if size > 1 else None
    handle = routes.find_plain(path) if isinstance(path, str) else None
    route: dict[str, str] = {}
    if handle is None:
        handle, route = _service_at(routes, path)
    if not isinstance(method, str) or method not in handle.methods:
        raise MethodNotAllowed(f"Method '{method}' not allowed on service '{path}'")
    takes_id, takes_data, query_at = _ARGUMENTS.get(method, _OF_CUSTOM_METHODS)
    if size > query_at + 1:
        raise BadRequest(f"Too many arguments for '{method}' method")
    record_id = None
    if takes_id:
        # As over REST, data may be missing where nothing is changed by it.
        if size < query_at:
            missing = " and ".join(("id", "data")[size - 2 : query_at - 2])
            raise BadRequest(f"Too few arguments for '{method}' method: {missing} missing")
        record_id = event[2]
        if not isinstance(record_id, _ID_TYPES) or isinstance(record_id, bool):
            raise BadRequest("An id has to be a string or a number")
        if record_id is None and method == "get":
            raise BadRequest("id for 'get' can not be null")
    query: dict[str, Any] | None = event[query_at] if size > query_at else None
    if query is None:
        query = {}
    elif not isinstance(query, dict):
        raise BadRequest("A query has to be an object")
    data: Any = None
    if takes_data:
        data = event[query_at - 1] if size >= query_at else {}
    params = call_params(connection, query, route)
    return HookContext(handle.app, handle, method, params, record_id, data)


def _service_at(
    routes: RouteTable[ServiceHandle], path: object
) -> tuple[ServiceHandle, dict[str, str]]:
    if isinstance(path, BadRequest):  # of `parse_json`
        raise path
    # Decoding the path of a whole message takes a quarter of a second.
    if not isinstance(path, str) or len(path) > MAX_PATH_LENGTH:
        raise NotFound("Invalid service path")
    # A path over a socket is not percent-encoded, and names no record.
    match = routes.find(path.replace("%", "%25"))
    if match is None or match[1] is not None:
        raise NotFound(f"Service '{path}' not found")
    return match[0], match[2]


async def run_call(
    context: HookContext,
    connection: Connection,
    packet_id: int | None,
    session: Session,
    under_way: CallsUnderWay,
    size: int,
    at_once: bool,
    app: App,
) -> None:
    """Run a call, and send its acknowledgement if the client asks for one.

    Args:
        context: The call.
        connection: The connection of the client.
        packet_id: The number of the acknowledgement, None for none.
        session: Sends the acknowledgement; it drops it if the client has left.
        under_way: The calls of the client; this one ends there.
        size: What it counts there.
        at_once: Whether this begins directly after the check of the limits. It then counts only if
            it has to wait, since nothing else happens before (-7 % instructions of a call).
        app: Its ``debug`` tells whether clients see the messages of unexpected errors.
    """
    begin_call(connection)
    is_counted = not at_once
    try:
        run = context.service.run(context)
        if at_once:
            waits_for = next(run.__await__(), ENDED)
            if waits_for is not ENDED:
                under_way.begin(size)
                is_counted = True
                await go_on(waits_for, run.send, run.throw)
        else:
            await run
        if packet_id is not None:
            body = context.result if context.dispatch is UNSET else context.dispatch
            for frame in encode_result(packet_id, body):
                session.send(frame)
    # Whatever a service raises, its client gets an answer.
    except Exception as error:  # noqa: BLE001  # it is logged
        log_error(error, f"{context.method} {context.path}")
        if packet_id is not None:
            shown = public_error(error, debug=app.debug)
            for frame in encode_error(packet_id, shown):
                session.send(frame)
    finally:
        if is_counted:
            under_way.end(size)


@types.coroutine
def go_on(
    waits_for: object,
    send: Callable[[Any], object],
    throw: Callable[[BaseException], object],
    cancelled: BaseException | None = None,
) -> Generator[Any, Any, None]:
    """Await the rest of a coroutine whose first step was run already, by `next` with `ENDED`.

    Args:
        waits_for: What it waits for.
        send: Runs its next step with a value.
        throw: Runs its next step with an exception.
        cancelled: Ends the first wait at once.
    """
    while True:
        try:
            if cancelled is not None:
                error, cancelled = cancelled, None
                raise error
            value = yield waits_for
        except BaseException as raised:  # noqa: BLE001  # it is for the coroutine
            step: Callable[[Any], object] = throw
            value = raised
        else:
            step = send
        try:
            waits_for = step(value)
        except StopIteration:
            return


def encode_result(packet_id: int, result: object) -> list[Frame]:
    """Return the acknowledgement of a call that succeeded.

    Raises:
        TypeError: The result has no JSON form.
    """
    attachments: list[bytes] = []
    text = dumps_with_attachments(None if result is UNSET else result, attachments)
    if not attachments:
        return [f"{_ACK_HEAD}{packet_id}[null,{text}]"]
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
    name, is_of_server = type(error).__name__, error.code >= 500
    # Texts of clients must not add lines to a log, nor fill it.
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in log_text(error)[:1_000])
    # An outage fails every call in the same way.
    suffix = _repeats.suffix(f"{name}: {text}") if is_of_server else ""
    if suffix is not None:
        level = logging.ERROR if is_of_server else logging.INFO
        _log.log(level, "%s over socket.io: %s: %s%s", what, name, text, suffix)
