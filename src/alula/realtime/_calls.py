"""Calls over socket.io: the arguments of an event -> a service call -> an acknowledgement.

The client sends ``(method, path, ...arguments, query)``; the answer is ``(error)`` or
``(null, result)``. Every call gets an answer, also if there is nothing to call: then it is a 400,
404 or 405. Calls of ``live`` and ``unlive`` are those of `alula.realtime._live_socket`. Items of
methods that stream follow the answer by `alula.realtime._socket_streams`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import types
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

from alula._app import App
from alula._connection import Connection, begin_call, is_outdated_call
from alula._context import HookContext, connection_params
from alula._item_stream import close_all
from alula._json_encoding import MAX_CONTAINERS, dumps_with_attachments, loads
from alula._public_error import error_json, log_text, public_error
from alula._repeats import RepeatLimit
from alula._routes import RouteTable
from alula._service import ServiceHandle
from alula._stream_limits import StreamLimits, run_in_time
from alula._wire import MESSAGE, Frame, Packet, PacketType, encode_packet, encode_text
from alula.errors import (
    BadRequest,
    FrameworkError,
    GeneralError,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
)
from alula.outgoing import public_result
from alula.outgoing._redaction import result_to_encode
from alula.realtime._engine import EngineSession, Work
from alula.realtime._limits import CallsUnderWay, LogLimit
from alula.realtime._live_socket import LIST_METHODS, ListCall, SocketLists, list_call
from alula.realtime._socket_streams import (
    STREAM_SIGNALS,
    SocketStream,
    SocketStreams,
    encode_end,
    encode_item,
)
from alula.types import UNSET, is_list, is_mapping

__all__ = ["ENDED", "ClientCalls", "go_on", "log_error", "parse_json"]

_log: Final = logging.getLogger("alula.realtime")
_repeats: Final = RepeatLimit()

# For each method: does it have an id, does it have data, and where in the event is the query.
_ARGUMENTS: Final = {
    "find": (False, False, 2),
    "get": (True, False, 3),
    "create": (False, True, 3),
    "update": (True, True, 4),
    "patch": (True, True, 4),
    "remove": (True, False, 3),
}
_OF_CUSTOM_METHODS: Final = (False, True, 3)

# A tuple, because the union `str | int | ...` would be built again for each call.
_ID_TYPES: Final = (str, int, float, type(None))

_ACK: Final = PacketType.ACK  # looked up once
_ACK_HEAD: Final = f"{MESSAGE}{_ACK:d}"

ENDED: Final = object()
"""What `next` returns if a coroutine ends in its first step, where `send` would raise."""

MAX_PATH_LENGTH: Final = 4_096

# The parser for texts that the usual one refuses. It accepts halves of surrogate pairs, and any
# number of levels and objects. Numbers stay text, because it takes long to read a long number.
_ANY_JSON: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def parse_json(text: str) -> Any:
    """Return the value of a packet's JSON, within the limits of REST's bodies.

    Returns:
        For a call that is JSON, but beyond the limits: its method and a `BadRequest`. Its caller
        gets the error as the answer, and other calls go on.

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


class ClientCalls:
    """The calls of one client.

    Args:
        app: The application.
        routes: Its routes, looked up once since an application has a `__getattr__`.
        session: Sends the acknowledgements; it drops them if the client has left.
        under_way: The calls that have not ended, and their limits.
        log_limit: How many lines clients may cause in the log.
        lists: Returns the live lists of the client.
        stream_limits: The time limits of streams.
        stream_tasks: Gets the tasks of streams that are open.
    """

    __slots__ = (
        "_app",
        "_lists",
        "_log_limit",
        "_routes",
        "_session",
        "_stream_limits",
        "_stream_tasks",
        "_streams",
        "under_way",
    )
    _streams: SocketStreams | None  # None until the client calls a method that streams

    def __init__(
        self,
        app: App,
        routes: RouteTable[ServiceHandle],
        session: EngineSession,
        under_way: CallsUnderWay,
        log_limit: LogLimit,
        lists: Callable[[], SocketLists],
        stream_limits: StreamLimits,
        stream_tasks: set[asyncio.Task[None]],
    ) -> None:
        self._app = app
        self._routes = routes
        self._session = session
        self.under_way = under_way
        self._log_limit = log_limit
        self._lists = lists
        self._stream_limits = stream_limits
        self._stream_tasks = stream_tasks
        self._streams = None

    def begin(
        self,
        connection: Connection,
        event: Sequence[Any],
        packet_id: int | None,
        size: int,
        at_once: bool,
    ) -> Work | None:
        """Return the work of a call, or refuse it.

        Args:
            connection: The connection of the client.
            event: The name of a method, the path of a service, and arguments.
            packet_id: The number of the acknowledgement, None for none.
            size: How many bytes arrived for it.
            at_once: Whether the caller runs the first step of the work now. Then the call is only
                counted if it has to wait (-7 % instructions of a call).
        """
        if self._streams is not None and event[0] in STREAM_SIGNALS:
            # In front of all limits: a client whose calls are all streams has to read them.
            self._streams.signal(event)
            if packet_id is not None:
                self._send(_encode_result(packet_id, None))
            return None
        try:
            size = self.under_way.check(size)
            call = _call_of(self._routes, connection, event)
        except FrameworkError as error:
            log_error(error, "a call", self._log_limit, self._session.address)
            if packet_id is not None:
                self._send(_encode_error(packet_id, error))
            return None
        if isinstance(call, ListCall):
            self.under_way.begin(size)
            return self._run_list_call(call, packet_id, size)
        if call.method in call.service.streaming:
            self._begin_stream(call, connection, packet_id, size)
            return None
        if not at_once:
            self.under_way.begin(size)
        return self._run(call, connection, packet_id, size, at_once)

    async def _run(
        self,
        context: HookContext,
        connection: Connection,
        packet_id: int | None,
        size: int,
        at_once: bool,
    ) -> None:
        """Run a call, and send its acknowledgement if the client asks for one."""
        if connection.sign_in is not None:
            begin_call(connection)
        is_counted = not at_once
        try:
            run = self._app.turns.take(self._session.address, context.service.run(context))
            if at_once:
                waits_for = next(run.__await__(), ENDED)
                if waits_for is not ENDED:
                    self.under_way.begin(size)
                    is_counted = True
                    await go_on(waits_for, run.send, run.throw)
            else:
                await run
            if packet_id is not None:
                body = result_to_encode(context)
                if self._app.debug and is_mapping(body) and "$stream" in body:
                    _log.warning(
                        "%s %s has a result with $stream, which clients may take for a stream",
                        context.method,
                        context.path,
                    )
                self._send(_encode_result(packet_id, body))
        # Whatever a service raises, its client gets an answer.
        except Exception as error:  # noqa: BLE001  # it is logged
            self._fail(f"{context.method} {context.path}", error, packet_id)
        finally:
            if is_counted:
                self.under_way.end(size)

    async def _run_list_call(self, call: ListCall, packet_id: int | None, size: int) -> None:
        """Run a call of ``live`` or ``unlive``."""
        try:
            if packet_id is None:
                raise BadRequest("it needs an acknowledgement, which has the rows")
            number = packet_id
            await self._lists().run(call, lambda result: self._send(_encode_result(number, result)))
        except Exception as error:  # noqa: BLE001  # it is logged
            self._fail(f"{call.method} {call.path}", error, packet_id)
        finally:
            self.under_way.end(size)

    # -- methods that stream -------------------------------------------------------------------

    def _begin_stream(
        self, context: HookContext, connection: Connection, packet_id: int | None, size: int
    ) -> None:
        """Begin a call of a method that streams; it is under way until its stream has ended."""
        self.under_way.begin(size)
        if self._streams is None:
            self._streams = SocketStreams(self._session, self._stream_limits, self._stream_tasks)
        self._streams.begin(
            lambda stream: self._run_stream(context, connection, packet_id, stream),
            lambda: self.under_way.end(size),
        )

    async def _run_stream(
        self,
        context: HookContext,
        connection: Connection,
        packet_id: int | None,
        stream: SocketStream,
    ) -> None:
        """Run a call of a method that streams, answer it, and send the items."""
        what, address = f"{context.method} {context.path}", self._session.address
        is_answered = False
        try:
            if packet_id is None:
                raise BadRequest("it needs an acknowledgement, which has the name of its stream")
            if connection.sign_in is not None:
                begin_call(connection)
            call = self._app.turns.take(address, context.service.run(context))
            await run_in_time(call, self._stream_limits)
            items = public_result(context)
            await items.change(encode_item)  # here, so that it may be an error of the call
            self._send(_encode_result(packet_id, {"$stream": stream.name}))
            is_answered = True
            await stream.send(items, partial(_check_user, connection))
            self._send(encode_end(stream.name, None))
        except Exception as error:  # noqa: BLE001  # it is logged
            if not is_answered:
                self._fail(what, error, packet_id)
                return
            log_error(error, f"the stream of {what}", self._log_limit, address)
            shown = public_error(error, debug=self._app.debug)
            self._send(_encode_body(lambda body: encode_end(stream.name, body), shown))
        finally:
            await close_all(context.streams)

    def drained(self) -> None:
        """Let streams go on that the client did not read."""
        if self._streams is not None:
            self._streams.drained()

    def end_streams(self) -> None:
        """End the streams: the client has left, or the server stops."""
        if self._streams is not None:
            self._streams.close()

    def _fail(self, what: str, error: Exception, packet_id: int | None) -> None:
        """Log the failure of a call, and answer with it if the client asks for an answer."""
        log_error(error, what, self._log_limit, self._session.address)
        if packet_id is not None:
            shown = public_error(error, debug=self._app.debug)
            self._send(_encode_error(packet_id, shown))

    def _send(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._session.send(frame)


def _check_user(connection: Connection) -> None:
    """Refuse to go on for a user who has signed out of the connection meanwhile.

    Raises:
        NotAuthenticated: The user has.
    """
    if is_outdated_call(connection):
        raise NotAuthenticated("The user of this stream has signed out")


def _call_of(
    routes: RouteTable[ServiceHandle], connection: Connection, event: Sequence[Any]
) -> HookContext | ListCall:
    """Return the context of the call that an event asks for, or its call of a live list.

    Raises:
        NotFound: There is no such service.
        MethodNotAllowed: The service does not offer the method to clients.
        BadRequest: Arguments are missing, too many, or of a wrong type; or `parse_json` refused
            them.
        NotAuthenticated: The connection was signed in, and its token has expired.
    """
    size = len(event)
    method, path = event[0], event[1] if size > 1 else None
    handle = routes.find_plain(path) if isinstance(path, str) else None
    route: dict[str, str] = {}
    if handle is None:
        handle, route = _service_at(routes, path)
    if not isinstance(method, str) or method not in handle.methods:
        if handle.live_options is not None and method in LIST_METHODS:
            return list_call(event, str(path), handle, route)
        raise MethodNotAllowed(f"Method '{method}' not allowed on service '{path}'")
    takes_id, takes_data, query_at = _ARGUMENTS.get(method, _OF_CUSTOM_METHODS)
    if size > query_at + 1:
        raise BadRequest(f"Too many arguments for '{method}' method")
    record_id = None
    if takes_id:
        # `create` and custom methods may have no data, as over REST; these methods must have it.
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
    params = connection_params(connection, query, route)
    return HookContext(handle.app, handle, method, params, record_id, data)


def _service_at(
    routes: RouteTable[ServiceHandle], path: object
) -> tuple[ServiceHandle, dict[str, str]]:
    if isinstance(path, BadRequest):  # made by `parse_json`
        raise path
    # To decode a path as long as the largest message takes a quarter of a second.
    if not isinstance(path, str) or len(path) > MAX_PATH_LENGTH:
        raise NotFound("Invalid service path")
    # Over a socket, a path is not percent-encoded, and has no id at its end.
    match = routes.find(path.replace("%", "%25"))
    if match is None or match[1] is not None:
        raise NotFound(f"Service '{path}' not found")
    return match[0], match[2]


@types.coroutine
def go_on(
    waits_for: object,
    send: Callable[[Any], object],
    throw: Callable[[BaseException], object],
    cancelled: BaseException | None = None,
) -> Generator[Any, Any, None]:
    """Await the rest of a coroutine whose first step was already run, by `next` with `ENDED`.

    Args:
        waits_for: The future that it waits for.
        send: Runs its next step with a value.
        throw: Runs its next step with an exception.
        cancelled: Raised in the coroutine immediately, None to wait first.
    """
    while True:
        try:
            if cancelled is not None:
                error, cancelled = cancelled, None
                raise error
            value = yield waits_for
        except BaseException as raised:  # noqa: BLE001  # the coroutine gets it
            step: Callable[[Any], object] = throw
            value = raised
        else:
            step = send
        try:
            waits_for = step(value)
        except StopIteration:
            return


def _encode_result(packet_id: int, result: object) -> list[Frame]:
    """Return the acknowledgement of a call that succeeded.

    Raises:
        TypeError: The result has no JSON form.
    """
    attachments: list[bytes] = []
    text = dumps_with_attachments(None if result is UNSET else result, attachments)
    if not attachments:
        return [f"{_ACK_HEAD}{packet_id}[null,{text}]"]
    return encode_text(_ACK, f"[null,{text}]", attachments, packet_id)


def _encode_error(packet_id: int, error: FrameworkError) -> list[Frame]:
    """Return the acknowledgement of a call that failed."""

    def encode(body: object) -> list[Frame]:
        return encode_packet(Packet(PacketType.ACK, [body], packet_id), dumps_with_attachments)

    return _encode_body(encode, error)


def _encode_body(encode: Callable[[object], list[Frame]], error: FrameworkError) -> list[Frame]:
    """Return the frames that tell an error, without its data if these have no JSON form."""
    body = error_json(error)
    try:
        return encode(body)
    # Values of the application may raise anything while they become JSON.
    except Exception:  # noqa: BLE001  # it is logged
        _log.exception("the data of an error has no JSON form; it was left out")
        return encode({name: body[name] for name in ("name", "message", "code", "className")})


def log_error(error: Exception, what: str, limit: LogLimit, address: str | None) -> None:
    """Log the failure of a call or a join: unexpected errors with their stack, others in one line.

    Args:
        error: The failure.
        what: What failed.
        limit: How many lines clients may cause.
        address: The address of the client.
    """
    if not isinstance(error, FrameworkError) or type(error) is GeneralError:
        if _may_log(limit, address):
            _log.error("%s over socket.io failed", what, exc_info=error)
        return
    name, is_of_server = type(error).__name__, error.code >= 500
    # Clients must not be able to fill the log, or to add lines of their own.
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in log_text(error)[:1_000])
    # During an outage every call fails in the same way.
    suffix = _repeats.suffix(f"{name}: {text}") if is_of_server else ""
    if suffix is not None and _may_log(limit, address):
        level = logging.ERROR if is_of_server else logging.INFO
        _log.log(level, "%s over socket.io: %s: %s%s", what, name, text, suffix)


def _may_log(limit: LogLimit, address: str | None) -> bool:
    """Tell whether a client may cause another line; first log how many lines were left out."""
    omitted = limit.take(address)
    if omitted:
        _log.warning("%d earlier failures of %s over socket.io were not logged", omitted, address)
    return omitted is not None
