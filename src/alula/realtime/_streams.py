"""How a request becomes a stream of server-sent events, and which clients may have one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from alula._connection import Connection, client_key, user_id_of
from alula._context import HookContext, Params, connection_params
from alula._identity import identify_connection
from alula._live import LiveList, LiveLists
from alula._service import ServiceHandle, owning_handle
from alula.errors import (
    BadRequest,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from alula.query import Grammar
from alula.query._grammar import QueriedService
from alula.realtime._event_ids import signer_of_list
from alula.realtime._event_log import EventLog
from alula.realtime._event_stream import (
    AllEvents,
    EventStream,
    Receive,
    Scope,
    Send,
    Subscription,
    own_lines_of_feathers6,
    send_head,
)
from alula.realtime._limits import MatchLimits
from alula.realtime._live_stream import LiveStream
from alula.types import is_list, is_mapping

if TYPE_CHECKING:
    from alula.express import ExpressApplication, Request, Response

__all__ = ["Streams"]

MAX_SERVICES: Final = 100
"""The largest number of services of one stream."""

_PAGE_NAMES: Final = ("$limit", "$skip", "$sort")
_NOT_OF_CONNECTION: Final = frozenset(
    {"authenticated_by", "connection", "headers", "ip", "provider", "query", "route"}
)


class Streams:
    """Opens the streams of one application.

    Args:
        app: The application.
        log: Its recent events.
        lists: Its live lists.
        heartbeat: Seconds between two heartbeats.
        most: How many streams there may be, None for any number.
        most_of_address: How many one IP address may have, None for any number.
    """

    def __init__(
        self,
        app: ExpressApplication,
        log: EventLog,
        lists: LiveLists,
        heartbeat: float,
        most: int | None,
        most_of_address: int | None,
    ) -> None:
        self._app = app
        self._log = log
        self._lists = lists
        self._heartbeat = heartbeat
        self._most = most
        self._most_of_address = most_of_address
        # With their addresses. Added before the hooks run, so that all of them count.
        self._open_streams: dict[EventStream | LiveStream, str | None] = {}
        self._match_limits = MatchLimits()
        self._streams_of: Counter[str | None] = Counter()

    def reset(self) -> None:
        """Tell all clients that they have missed events, because some did not arrive here."""
        for stream in self._open_streams:
            if isinstance(stream, EventStream):
                stream.reset()

    def close(self) -> None:
        """End all streams, so that their clients come back to another server."""
        for stream in tuple(self._open_streams):
            stream.end()

    async def of_service(
        self,
        handle: ServiceHandle,
        route: Mapping[str, str],
        req: Request,
        res: Response,
    ) -> None:
        """Respond with the events of one service.

        Raises:
            Exception: Whatever the hooks of ``find`` raise.
        """
        query = {**req.query}
        live = query.pop("$live", None)
        if live is None:
            await self._open([(handle, route)], query, req, res, names_path=False)
        elif live in {"true", True}:
            await self._open_list(handle, route, query, req, res)
        else:
            raise BadRequest("$live is true, or left out")

    async def of_several(self, req: Request, res: Response) -> None:
        """Respond with the events of the services in the query.

        Raises:
            BadRequest: The query names no service, or one with several values of its placeholders,
                or has other fields.
            NotFound: There is no such service.
            MethodNotAllowed: A service does not offer ``find``, or has middleware of its own.
            Exception: Whatever the hooks of ``find`` raise.
        """
        query = {**req.query}
        given = query.pop("services", None)
        paths = given.split(",") if isinstance(given, str) else given
        if not is_list(paths) or not 0 < len(paths) <= MAX_SERVICES:
            raise BadRequest(
                f"name up to {MAX_SERVICES} services: ?services=messages,users", {"services": given}
            )
        others = query.keys() - {"ticket", "lastEventId"}
        if others:
            raise BadRequest(
                f"a stream of several services takes no query but `services`, not {min(others)!r}"
            )
        services: dict[ServiceHandle, Mapping[str, str]] = {}
        for path in dict.fromkeys(map(str, paths)):
            match = self._app.lookup(path)
            if match is None or match.id is not None or not match.value.methods:
                raise NotFound(f"there is no service at {path!r}")
            if "find" not in match.value.methods:
                raise MethodNotAllowed(f"the service at {path!r} has no `find`, so no stream")
            around = self._app.service_middleware.get(match.value)
            if around is not None and around.before:  # it may protect the service
                raise MethodNotAllowed(
                    f"the service at {path!r} has middleware of its own, which only runs for a"
                    f" stream of this service alone: /{path.strip('/')}"
                )
            if services.setdefault(match.value, match.route) != match.route:
                # The names of their events would be the same.
                raise BadRequest(
                    f"a stream has {match.value!r} with one value of each placeholder; open another"
                    f" one for {path!r}"
                )
        opening = self._open([*services.items()], query, req, res, names_path=True)
        await self._app.turns.take(req.ip, opening)

    async def _open(
        self,
        services: Sequence[tuple[ServiceHandle, Mapping[str, str]]],
        query: dict[str, Any],
        req: Request,
        res: Response,
        *,
        names_path: bool,
    ) -> None:
        ticket, last_id = _ticket_and_id(query, req)
        refused = next((name for name in _PAGE_NAMES if name in query), None)
        if refused is not None:
            raise BadRequest(f"a stream has no pages: {refused} is for `find` without a stream")
        self._check_room(req.ip)
        subscriptions: dict[str, Subscription] = {}
        give_way = partial(self._app.turns.give_way, req.ip)
        stream = EventStream(subscriptions.get, self._heartbeat, self._log, give_way)
        connection = self._connection_of(stream, req)
        try:
            await identify_connection(self._app, connection, ticket)
            subscriptions |= await _subscriptions(
                services, connection, query, names_path=names_path
            )
        except BaseException:
            self._remove(stream, connection)  # a sign-in may have joined channels
            raise
        match_limit = self._match_limits.of_client(client_key(connection))
        for subscription in subscriptions.values():
            subscription.limit = match_limit
        self._respond(stream, connection, last_id, req, res)

    async def of_everything(self, path: str, req: Request, res: Response) -> None:
        """Respond with all events of the connection's channels, as FeathersJS 6 reads them.

        Raises:
            MethodNotAllowed: It is no GET.
            Exception: Whatever the sign-in raises.
        """
        if req.method not in {"GET", "HEAD"} or "id" in req.params:
            raise MethodNotAllowed(f"/{path} is a stream of events: read it with GET /{path}")
        query = {**req.query}
        ticket, last_id = _ticket_and_id(query, req)
        self._check_room(req.ip)
        all_events = AllEvents()
        give_way = partial(self._app.turns.give_way, req.ip)
        own = own_lines_of_feathers6(path, query)
        stream = EventStream(lambda _: all_events, self._heartbeat, self._log, give_way, own)
        connection = self._connection_of(stream, req)
        connection.query = query
        try:
            await identify_connection(self._app, connection, ticket)
        except BaseException:
            self._remove(stream, connection)
            raise
        self._respond(stream, connection, last_id, req, res)

    def _respond(
        self,
        stream: EventStream,
        connection: Connection,
        last_id: str | None,
        req: Request,
        res: Response,
    ) -> None:
        """Let a stream be the response, or its head for HEAD."""
        payload = (connection.authentication or {}).get("payload")
        stream.expires = payload.get("exp") if is_mapping(payload) else None
        res.vary("Accept")
        if req.method == "HEAD":
            res.delegate(send_head)
            self._remove(stream, connection)
            return
        run = partial(self._run, stream, connection, last_id)
        # If other middleware fails, the stream never runs; but a sign-in may have joined channels.
        finalize(run, self._remove, stream, connection).atexit = False
        res.delegate(run)

    async def _open_list(
        self,
        handle: ServiceHandle,
        route: Mapping[str, str],
        query: dict[str, Any],
        req: Request,
        res: Response,
    ) -> None:
        """Respond with a live list of one service."""
        ticket, last_id = _ticket_and_id(query, req)
        self._check_room(req.ip)
        stream = LiveStream(self._heartbeat, last_id)
        connection = self._connection_of(stream, req)
        sign = signer_of_list(self._log.ids, connection, handle, route, query)
        try:
            await identify_connection(self._app, connection, ticket)
            shown = LiveList(handle, connection, route, query, stream.take)
            stream.show(self._lists, shown, sign)
            await self._lists.open(shown)
        except BaseException:
            self._remove(stream, connection)
            raise
        stream.expires = shown.expires
        res.vary("Accept")
        run = partial(self._run_list, stream, connection)
        finalize(run, self._remove, stream, connection).atexit = False
        res.delegate(run)

    async def _run_list(
        self,
        stream: LiveStream,
        connection: Connection,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        app = self._app
        stream.leave = partial(self._remove, stream, connection)
        try:
            app.add_connection(connection)
            await connection.wait_until_joined()
            if connection.channels:  # hooks of `find` may look at them
                self._lists.change_caller(connection)
            await stream.run(scope, receive, send)
        finally:
            self._remove(stream, connection)

    def _connection_of(self, stream: EventStream | LiveStream, req: Request) -> Connection:
        """Return the connection of a stream, which counts from now on."""
        given = req.framework.__dict__
        attributes = {n: value for n, value in given.items() if n not in _NOT_OF_CONNECTION}
        self._open_streams[stream] = req.ip
        self._streams_of[req.ip] += 1
        return Connection(stream, provider="sse", headers=req.headers, ip=req.ip, **attributes)

    def _check_room(self, address: str | None) -> None:
        """Check whether another stream may begin.

        Raises:
            Unavailable: There are too many streams.
            TooManyRequests: This address has too many streams.
        """
        if self._most is not None and len(self._open_streams) >= self._most:
            raise Unavailable("Too many streams")
        limit = self._most_of_address
        if limit is not None and self._streams_of[address] >= limit:
            raise TooManyRequests("Too many streams of this address")

    async def _run(
        self,
        stream: EventStream,
        connection: Connection,
        last_id: str | None,
        _: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Add the connection, and send the events of a stream until either side ends it."""
        app = self._app
        stream.leave = partial(app.remove_connection, connection)
        began = int(time.time() * 1000)  # before the first event that it may get
        try:
            app.add_connection(connection)
            await connection.wait_until_joined()
            user, channels = user_id_of(connection) or "", connection.membership
            read = None if last_id is None else self._log.ids.read(last_id, user, channels)
            missed = None if read is None else self._log.since(read[0])
            if read is not None and missed is None:
                await self._log.wait_for_recall()
                missed = self._log.since(read[0])
            if read is not None and missed is not None:
                began = read[1]
            else:
                began = max(began, int(connection.joined_at * 1000))
            stream.id_end = self._id_end(connection, user, began)
            if last_id is not None and not connection.is_open:
                await stream.resume((), {})  # it has ended; the client comes back with the same id
            elif read is not None and missed is not None:
                events = (logged.for_connection(connection) for logged in missed)
                await stream.resume(events, read[0].sequences)
            elif last_id is not None:
                stream.reset(None if read is None else read[0].sequences)
            await stream.run(receive, send)
        finally:
            self._remove(stream, connection)

    def _id_end(self, connection: Connection, user: str, began: int) -> Callable[[], bytes]:
        """Return the function that returns the second half of a stream's ids.

        Args:
            connection: The connection of the stream.
            user: The id of its user, empty for nobody.
            began: Since when it is in its current channels, in milliseconds since 1970.
        """
        sign, joined_at = self._log.ids.sign_beginning, connection.joined_at
        signed: tuple[object, bytes] = (None, b"")

        def id_end() -> bytes:
            nonlocal signed
            state = connection.joined_at, len(connection.channels)
            if signed[0] != state:
                joined_later = connection.joined_at != joined_at
                since = int(connection.joined_at * 1000) if joined_later else began
                half = sign(since, user, connection.membership)
                signed = state, f".{half}\n\n".encode()
            return signed[1]

        return id_end

    def _remove(self, stream: EventStream | LiveStream, connection: Connection) -> None:
        """Remove a stream and its connection. Calling it again does nothing."""
        self._lists.close_all(connection)
        if stream in self._open_streams:
            address = self._open_streams.pop(stream)
            self._streams_of[address] -= 1
            if not self._streams_of[address]:
                del self._streams_of[address]
        self._app.remove_connection(connection)


def _ticket_and_id(query: dict[str, Any], req: Request) -> tuple[str | None, str | None]:
    """Take the ticket and the last event id out of a query, or take the id from its header."""
    ticket, last_id = query.pop("ticket", None), query.pop("lastEventId", None)
    if not isinstance(ticket, str | None) or not isinstance(last_id, str | None):
        raise BadRequest("ticket and lastEventId are texts")
    # A browser sends the header by itself. A new `EventSource`, as with a new ticket, cannot.
    return ticket, req.headers.get("last-event-id") or last_id


class _MethodReached(BaseException):
    """Stops a call of ``find`` right before its method; error hooks do not see it."""


async def _subscriptions(
    services: Sequence[tuple[ServiceHandle, Mapping[str, str]]],
    connection: Connection,
    query: Mapping[str, Any],
    *,
    names_path: bool,
) -> dict[str, Subscription]:
    """Return the subscriptions of a stream by path, as the hooks of ``find`` permit them.

    Params that the hooks set, such as the user, become attributes of the connection.

    Raises:
        NotAuthenticated: The sign-in of the connection ended meanwhile.
        Exception: Whatever the hooks raise.
    """
    subscriptions: dict[str, Subscription] = {}
    set_by_hooks: dict[str, Any] = {}
    sign_in = connection.sign_in
    for handle, route in services:
        params = await _params_of_find(handle, connection, {**query}, route)
        set_by_hooks |= params.__dict__
        service = owning_handle(handle).service
        grammar = service.query_grammar(params) if isinstance(service, QueriedService) else None
        subscriptions[handle.path] = Subscription(
            params.query, grammar or Grammar(), route, names_path=names_path
        )
    if sign_in is not None and connection.sign_in is not sign_in:
        # The params still have the user, who must not get back onto the connection.
        raise NotAuthenticated("The sign-in ended while the stream began; sign in again")
    # Only after all hooks have run: hooks of one service must not affect those of the next one.
    # Publishers need these attributes, for example the user.
    connection.__dict__.update(
        (name, value) for name, value in set_by_hooks.items() if name not in _NOT_OF_CONNECTION
    )
    return subscriptions


async def _params_of_find(
    handle: ServiceHandle, connection: Connection, query: dict[str, Any], route: Mapping[str, str]
) -> Params:
    """Run the hooks of ``find``, and return the params that its method would have got.

    Raises:
        MethodNotAllowed: A hook set the result itself, so later hooks have not checked the call.
        Exception: Whatever the hooks raise.
    """
    reached: list[Params] = []

    async def run_hooks(handle: ServiceHandle, context: HookContext) -> None:
        """Run the hooks of a call, and those of a mounted application that has the service."""

        async def stop(context: HookContext) -> None:
            inner = handle.service
            if not isinstance(inner, ServiceHandle):
                reached.append(context.params)
                raise _MethodReached
            params = context.params.copy()
            await run_hooks(inner, HookContext(inner.app, inner, "find", params))

        around_service = handle.hook_table.wrap("find", stop)
        await handle.app.hook_table.wrap("find", around_service)(context)

    await handle.wait_for_setup()
    context = HookContext(handle.app, handle, "find", connection_params(connection, query, route))
    try:
        await run_hooks(handle, context)
    except* _MethodReached:  # in a group if a hook runs the call in a task group
        pass
    if not reached:
        raise MethodNotAllowed(f"a hook of {handle!r} responds in its place, so it has no stream")
    return reached[0]
