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
from alula._connection import Connection
from alula._context import HookContext
from alula._json_encoding import dumps_with_attachments
from alula._public_error import public_error
from alula._service import ServiceHandle
from alula._wire import Frame, Packet, PacketType, encode_packet
from alula.errors import BadRequest, FrameworkError, GeneralError, MethodNotAllowed, NotFound
from alula.types import UNSET

__all__ = ["call_context", "encode_error", "encode_result", "log_error", "run_call"]

_log: Final = logging.getLogger("alula.realtime")

# The arguments before the query. Custom methods take data.
_ARGUMENTS: Final = {
    "find": (),
    "get": ("id",),
    "create": ("data",),
    "update": ("id", "data"),
    "patch": ("id", "data"),
    "remove": ("id",),
}
_OF_CUSTOM_METHODS: Final = ("data",)


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
    names = _ARGUMENTS.get(method, _OF_CUSTOM_METHODS)
    given = event[2:]
    if len(given) > len(names) + 1:
        raise BadRequest(f"Too many arguments for '{method}' method")
    # As over REST, data may be missing where nothing is changed by it.
    if len(given) < len(names) and "id" in names:
        missing = " and ".join(names[len(given) :])
        raise BadRequest(f"Too few arguments for '{method}' method: {missing} missing")
    arguments = dict(zip(names, given, strict=False))
    record_id = arguments.get("id")
    if not isinstance(record_id, str | int | float | None) or isinstance(record_id, bool):
        raise BadRequest("An id has to be a string or a number")
    if record_id is None and method == "get":
        raise BadRequest("id for 'get' can not be null")
    query = given[len(names)] if len(given) > len(names) else None
    if query is None:
        query = {}
    elif not isinstance(query, dict):
        raise BadRequest("A query has to be an object")
    data = None if method in {"find", "get", "remove"} else arguments.get("data", {})
    params = call_params(connection, query, route)
    return HookContext(handle.app, handle, method, params, record_id, data)


def _service_at(app: App, path: object) -> tuple[ServiceHandle, dict[str, str]]:
    if not isinstance(path, str):
        raise NotFound("Invalid service path")
    # A path over a socket is not percent-encoded, and names no record.
    match = app.routes.find(path.replace("%", "%25"))
    if match is None or match[1] is not None:
        raise NotFound(f"Service '{path}' not found")
    return match[0], match[2]


async def run_call(
    context: HookContext,
    packet_id: int | None,
    send: Callable[[list[Frame]], None],
    under_way: set[HookContext],
    *,
    debug: bool,
) -> None:
    """Run a call, and send its acknowledgement if the client asks for one.

    Args:
        context: The call.
        packet_id: The number of the acknowledgement, None for none.
        send: Sends the frames of a packet; it drops them if the client has left.
        under_way: The calls of the connection, without this one at its end.
        debug: Whether clients see the messages of unexpected errors.
    """
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
        under_way.discard(context)


def encode_result(packet_id: int, result: object) -> list[Frame]:
    """Return the acknowledgement of a call that succeeded.

    Raises:
        TypeError: The result has no JSON form.
    """
    packet = Packet(PacketType.ACK, [None, None if result is UNSET else result], packet_id)
    return encode_packet(packet, dumps_with_attachments)


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
