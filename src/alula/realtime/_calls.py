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
from alula._public_error import error_json, log_text, public_error
from alula._repeats import RepeatLimit
from alula._routes import RouteTable
from alula._service import ServiceHandle
from alula._wire import MESSAGE, Frame, Packet, PacketType, encode_packet, encode_text
from alula.errors import (
    BadRequest,
    FrameworkError,
    GeneralError,
    MethodNotAllowed,
    NotFound,
)
from alula.realtime._engine import Session
from alula.realtime._limits import CallsUnderWay, LogLimit
from alula.types import UNSET

__all__ = [
    "ENDED",
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
    log_limit: LogLimit,
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
        log_limit: How many lines clients may cause in the log.
    """
    begin_call(connection)
    is_counted = not at_once
    try:
        run = app.turns.take(session.address, context.service.run(context))
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
        log_error(error, f"{context.method} {context.path}", log_limit, session.address)
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
    body = error_json(error)
    try:
        return encode_packet(Packet(PacketType.ACK, [body], packet_id), dumps_with_attachments)
    # Values may fail in any way while they are turned into JSON.
    except Exception:  # noqa: BLE001  # it is logged
        _log.exception("the data of an error has no JSON form; it was left out")
        plain = {name: body[name] for name in ("name", "message", "code", "className")}
        return encode_packet(Packet(PacketType.ACK, [plain], packet_id), dumps_with_attachments)


def log_error(error: Exception, what: str, limit: LogLimit, address: str | None) -> None:
    """Log the failure of a call or a join: unexpected ones with their stack, others in a line.

    Args:
        error: The failure.
        what: What failed.
        limit: How many lines clients may cause.
        address: Whose line it is.
    """
    if not isinstance(error, FrameworkError) or type(error) is GeneralError:
        if _may_log(limit, address):
            _log.error("%s over socket.io failed", what, exc_info=error)
        return
    name, is_of_server = type(error).__name__, error.code >= 500
    # Texts of clients must not add lines to a log, nor fill it.
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in log_text(error)[:1_000])
    # An outage fails every call in the same way.
    suffix = _repeats.suffix(f"{name}: {text}") if is_of_server else ""
    if suffix is not None and _may_log(limit, address):
        level = logging.ERROR if is_of_server else logging.INFO
        _log.log(level, "%s over socket.io: %s: %s%s", what, name, text, suffix)


def _may_log(limit: LogLimit, address: str | None) -> bool:
    """Tell whether a client may cause another line, and say how many were left out before it."""
    omitted = limit.take(address)
    if omitted:
        _log.warning("%d earlier failures of %s over socket.io were not logged", omitted, address)
    return omitted is not None
