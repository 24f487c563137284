"""One stream of server-sent events: which events belong to it, and how it sends them."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Set
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from alula._channels import Event
from alula._json_encoding import dumps
from alula.errors import TooManyRequests
from alula.outgoing._encoders import as_mapping, json_encoder_of
from alula.query import Grammar, ValidatedQuery, predicate
from alula.query._query import Budget
from alula.realtime._event_log import EventLog
from alula.realtime._limits import MatchLimit
from alula.types import SCALAR_TYPES, is_array, is_mapping

__all__ = [
    "AllEvents",
    "EventStream",
    "Receive",
    "Scope",
    "Send",
    "Subscription",
    "own_lines_of_feathers6",
    "send_head",
    "send_part",
    "start_of_stream",
    "stop_later",
    "until_either_ends",
]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_ID: Final = b"\nid: "

_log: Final = logging.getLogger("alula.realtime")

MAX_QUEUED_EVENTS: Final = 1_000
MAX_QUEUED_BYTES: Final = 1_048_576
"""How many events may wait for a slow client. Then its stream ends; the client comes back and
resumes."""

RETRY_MILLISECONDS: Final = 3_000
"""How long a browser waits before it comes back."""

MAX_REPLAYED_BYTES: Final = 8 * 1_048_576
"""How much a client that comes back gets of missed events. If there is more, it gets `reset`."""

END_SECONDS: Final = 30.0
"""How long a stream waits at its end for its client to read the rest. `alula serve` closes such a
connection earlier (``write_timeout``); other servers do not."""

MATCH_STEPS: Final = 10_000
"""The work limit for matching one event with the query of one stream."""

RESUME_STEPS: Final = 200_000
"""The work limit for matching all events that a client has missed."""

EVENTS_IN_A_ROW: Final = 100
"""How many missed events are matched before other requests have their turn."""

STEPS_IN_A_ROW: Final = 20_000
"""How many steps that may take, which is some 5 ms."""

_HEADERS: Final = [
    # Without a charset, which is always UTF-8: FeathersJS 6 compares the whole header.
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # otherwise nginx buffers the events
]


class Subscription:
    """The events of one service that belong to a stream.

    Args:
        query: A query that their records must match. ``$select`` narrows their data.
        grammar: Reads queries of the service.
        route: The values of the placeholders in the path of the service.
        names_path: Whether the names of events have the path: ``messages created``.

    Attributes:
        limit: Limits the work for all streams of the client, None for no limit.

    Raises:
        BadRequest: The query is not valid, or cannot be matched without a database.
    """

    def __init__(
        self,
        query: Mapping[str, Any],
        grammar: Grammar,
        route: Mapping[str, str],
        *,
        names_path: bool,
    ) -> None:
        raw: Any = _comparable(query)
        if isinstance(query, ValidatedQuery):
            raw = ValidatedQuery(raw, query.operators, query.filters)
        read = grammar.read(raw)
        self._route = {**route}
        self._budget = Budget(MATCH_STEPS)
        self._matches = predicate(read.criteria, self._budget) if read.criteria.parts else None
        self._names_path = names_path
        self.limit: MatchLimit | None = None
        self._selected: Set[str] | None = None
        if read.select is not None:
            self._selected = {"id", "_id", *(name.split(".")[0] for name in read.select)}

    @property
    def steps(self) -> float:
        """How many steps the last event took to match."""
        return MATCH_STEPS - self._budget.steps_left

    def matches(self, event: Event) -> bool:
        """Tell whether an event belongs to the stream.

        Raises:
            TooManyRequests: The queries of the client take too much work.
        """
        self._budget.steps_left = MATCH_STEPS
        if event.route and {**event.route} != self._route:
            return False
        if self._matches is None:
            return True
        try:
            record = event.encoded(_comparable_record)
            return is_mapping(record) and self._matches(record)
        except Exception:  # noqa: BLE001  # see below
            # Too many steps, or values that have no order. A client's query must not make the call
            # fail that wrote the record.
            return False
        finally:
            # Most queries need no steps.
            if self._budget.steps_left != MATCH_STEPS and self.limit is not None:
                self.limit.spend(min(self.steps, MATCH_STEPS))

    def encode(self, event: Event) -> bytes | None:
        """Return the lines of an event, None for one that has no JSON form."""
        if self._selected is None:
            return event.encoded(_encode_with_path if self._names_path else _encode)
        # Not cached: the event log keeps the event, and there are as many forms as clients like.
        return _encode(event, self._selected, names_path=self._names_path)


class AllEvents(Subscription):
    """All events of all services, as FeathersJS 6 reads them: ``{"event", "data", "path"}``.

    Like a socket.io client, it gets what publishers send to its connection.
    """

    def __init__(self) -> None:
        super().__init__({}, Grammar(), {}, names_path=True)

    def matches(self, event: Event) -> bool:  # noqa: ARG002  # all do
        """Return True."""
        return True

    def encode(self, event: Event) -> bytes | None:
        """Return the lines of an event, None for one that has no JSON form."""
        return event.encoded(_encode_as_feathers6)


def _message_of_feathers6(path: str, event: str, data: bytes, id: str | None) -> bytes:
    """Return the lines of one event for FeathersJS 6, without the end of its id.

    Args:
        path: That of the service, or of the stream itself.
        event: The name of the event.
        data: JSON.
        id: As for `_event_block`.
    """
    line = b"\n:" if id is None else _ID + id.encode()
    start = f'data: {{"path":{json.dumps(path)},"event":{json.dumps(event)},"data":'.encode()
    return b"".join((start, data, b"}", line))


def _event_block(event: str, data: bytes, id: str | None) -> bytes:
    """Return the lines of one event, which end with the first half of its id.

    Each stream adds its own second half when it sends the event. So all streams share these lines.

    Args:
        event: The name of the event.
        data: JSON, which has no line breaks.
        id: The position to resume from, None to keep the previous one.
    """
    # Without an id, the second half is read as a comment.
    line = b"\n:" if id is None else _ID + id.encode()
    return b"".join((f"event: {event}\ndata: ".encode(), data, line))


class OwnLines(NamedTuple):
    """What a stream says itself, besides the events of services.

    Attributes:
        event: Returns the lines of an event such as ``reset``; see `_event_block`.
        first: What it sends before all events.
        last: What it sends at its end.
    """

    event: Callable[[str, bytes, str | None], bytes] = _event_block
    first: bytes = b""
    last: bytes = b""


_USUAL_LINES: Final = OwnLines()


def own_lines_of_feathers6(path: str, query: Mapping[str, Any]) -> OwnLines:
    """Return what a stream for FeathersJS 6 says itself.

    Args:
        path: That of the stream.
        query: That of its request.
    """
    event = partial(_message_of_feathers6, path)
    first = event("connected", dumps(query), None) + b"\n\n"
    # Its client connects again only after an error, and text that is not JSON is one.
    return OwnLines(event, first, last=b"data: the end\n\n")


def _encode(
    event: Event, selected: Set[str] | None = None, *, names_path: bool = False
) -> bytes | None:
    """Return the lines of an event, None for one that has no JSON form."""
    data = event.data
    if selected is not None and is_mapping(data):
        data = {name: value for name, value in data.items() if name in selected}
    encoded = _json_of(event, data)
    if encoded is None:
        return None
    name = f"{event.path} {event.name}" if names_path else event.name
    return _event_block(name, encoded, event.position)


_encode_with_path: Final = partial(_encode, names_path=True)


def _encode_as_feathers6(event: Event) -> bytes | None:
    data = _json_of(event, event.data)
    if data is None:
        return None
    return _message_of_feathers6(event.path, event.name, data, event.position)


def _json_of(event: Event, data: object) -> bytes | None:
    """Return the data of an event as JSON, None if it has no JSON form."""
    try:
        return dumps(data)
    except Exception:  # noqa: BLE001  # must not fail the call that caused the event
        _log.exception("%r cannot be sent as JSON", event)
        return None


def _comparable_record(event: Event) -> object:
    return _comparable(as_mapping(event.record))


def _comparable(value: object) -> object:
    """Return a value with ids of databases and other special types in their JSON form.

    Clients send such values as text. Adapters convert the text; here the record is converted.
    """
    if type(value) in SCALAR_TYPES:
        return value
    if is_mapping(value):
        return {name: _comparable(inner) for name, inner in value.items()}
    if is_array(value):
        return [_comparable(inner) for inner in value]
    encode = json_encoder_of(type(value))
    return value if encode is None else encode(value)


class EventStream:
    """A stream to one client; it is the `Link` of its connection.

    Args:
        subscription_of: Returns its subscription by the path of a service, None without one.
        heartbeat: Seconds of silence after which it sends a comment.
        log: The recent events of the application, with their ids.
        give_way: Lets other tasks run in the middle of long work.
        own: What it says itself.

    Attributes:
        leave: Called once when it ends, to remove its connection.
        id_end: Returns the current second half of its ids, and the end of an event.
        expires: When it ends with ``event: expired``, in seconds since 1970; None for never.
    """

    def __init__(
        self,
        subscription_of: Callable[[str], Subscription | None],
        heartbeat: float,
        log: EventLog,
        give_way: Callable[[], Awaitable[object]],
        own: OwnLines = _USUAL_LINES,
    ) -> None:
        self._log = log
        self._give_way = give_way
        self._subscription_of = subscription_of
        self._heartbeat = heartbeat
        self.id_end: Callable[[], bytes] = lambda: b"\n\n"
        self.leave: Callable[[], object] = dict  # does nothing, as there is no connection yet
        self.expires: float | None = None
        self._own = own
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._replayed: deque[bytes] = deque()
        self._seen: Mapping[str, int] = {}
        self._is_resuming = False
        self._has_news = asyncio.Event()
        self._has_ended = False
        self._sending: asyncio.Task[None] | None = None
        self._last = b""

    @property
    def queued(self) -> int:
        """How many events wait for the client to read."""
        return len(self._queue) + len(self._replayed)

    def deliver(self, event: Event) -> None:
        """Queue an event; end the stream if the client is too far behind."""
        block = self._block_of(event)
        if block is None or self._has_ended:
            return
        self._queue.append(block)
        self._bytes += len(block)
        self._has_news.set()
        if len(self._queue) > MAX_QUEUED_EVENTS or self._bytes > MAX_QUEUED_BYTES:
            self._queue.clear()
            self.end()

    async def resume(self, events: Iterable[Event | None], seen: Mapping[str, int]) -> None:
        """Send the missed events first, or `reset` if they are too many or too much work.

        Call it before `run`. Events that are published meanwhile wait.

        Args:
            events: All events for the connection since the client left, also those that this stream
                has got already; None for events that are not for it.
            seen: The number of the last event of each process that the client has.
        """
        self._queue.clear()  # its events are among the given ones
        self._bytes = 0
        self._seen = seen
        self._is_resuming = True
        steps_left: float = RESUME_STEPS
        bytes_left = MAX_REPLAYED_BYTES
        pause_at: float = RESUME_STEPS - STEPS_IN_A_ROW
        in_a_row = 0
        for event in events:
            in_a_row += 1
            if in_a_row == EVENTS_IN_A_ROW or steps_left < pause_at:
                in_a_row, pause_at = 0, steps_left - STEPS_IN_A_ROW
                await self._give_way()
            if not self._is_resuming:  # a reset came meanwhile
                break
            subscription = None if event is None else self._subscription_of(event.path)
            if event is None or subscription is None:
                continue
            block = self._block_of(event)
            if block is not None:
                self._replayed.append(block)
                bytes_left -= len(block)
            steps_left -= subscription.steps
            if self._has_ended:
                break
            if steps_left < 0 or bytes_left < 0:
                self.reset()
                break
        self._is_resuming = False

    def reset(self, seen: Mapping[str, int] | None = None) -> None:
        """Tell the client that it has missed events, so that it fetches all records again.

        Waiting events are dropped, because the fetched records include their changes.

        Args:
            seen: The number of the last event of each process that the client has seen at another
                process: these events may still arrive here. None if the client was at this process.
        """
        if seen is not None:
            self._seen = seen
        self._queue.clear()
        self._bytes = 0
        self._replayed.clear()
        self._replayed.append(self._own.event("reset", b"null", self._position()))
        self._is_resuming = False
        self._has_news.set()

    async def close(self, reason: str = "", *, reconnect: bool = True) -> None:  # noqa: ARG002  # see below
        """End the stream. If the reason is ``expired``, the client gets an event of that name.

        ``reconnect`` has no effect: browsers come back by themselves, and hooks may refuse them.
        """
        self.end(reason)

    def end(self, reason: str = "") -> None:
        """End the stream; does nothing the second time."""
        if not self._has_ended:
            self._has_ended = True
            id_end = self.id_end()
            self.id_end = lambda: id_end  # as of now, before the connection leaves its channels
            self._last = b""
            if reason == "expired":
                self._last = self._own.event("expired", b"null", None) + self.id_end()
            self._has_news.set()
            if self._sending is not None:
                stop_later(self._sending)
            self.leave()

    async def run(self, receive: Receive, send: Send) -> None:
        """Send the stream until either side ends it."""
        sending = asyncio.create_task(self._send_all(send), name="a stream of events")
        self._sending = sending
        if self._has_ended:  # while it resumed
            stop_later(sending)
        await until_either_ends(sending, receive, self.expires, self.end)

    # -- inside --------------------------------------------------------------------------------

    def _block_of(self, event: Event) -> bytes | None:
        """Return the lines of an event, None if it does not belong to the stream."""
        subscription = self._subscription_of(event.path)
        if subscription is None or event.sequence <= self._seen.get(event.origin, 0):
            return None
        try:
            block = subscription.encode(event) if subscription.matches(event) else None
        except TooManyRequests as error:
            self.end()
            # The last lines, which tell the client the reason.
            self._last = self._own.event("error", dumps(error.to_dict()), None) + self.id_end()
            return None
        if block is None or event.position is None:
            return block
        raised = self._raise(event.position)
        if raised is event.position:  # nearly always
            return block
        return b"".join((block.rpartition(_ID)[0], _ID, raised.encode()))

    def _position(self) -> str:
        """Return the position after all events so far."""
        return self._raise(self._log.position())

    def _raise(self, id: str) -> str:
        """Return a position that includes what the client has seen at another process."""
        # While resuming always: when a missed event was published, its process may have known less
        # than the client does.
        if self._is_resuming or self._log.is_behind(self._seen):
            return self._log.raise_position(id, self._seen)
        return id

    async def _send_all(self, send: Send) -> None:
        await send(start_of_stream())
        start = f"retry: {RETRY_MILLISECONDS}\n".encode()
        # An id without data sets the position, so the client misses nothing before the first event.
        # Not if the stream has ended already: it dropped events that the client must get later.
        if not self.queued and not self._has_ended:
            start += f"id: {self._position()}".encode() + self.id_end()
        else:
            start += b"\n"
        await send_part(send, self._own.first + start)
        is_idle = False
        while True:
            self._has_news.clear()
            blocks = [*self._replayed, *self._queue]
            self._replayed.clear()
            self._queue.clear()
            self._bytes = 0
            # Of the current channels. A client that joined one later cannot resume from before.
            id_end = self.id_end()
            if blocks:
                await send_part(send, id_end.join(blocks) + id_end)
                continue  # more may have come meanwhile
            if self._has_ended:
                break
            if is_idle:
                # A new id, so that the client resumes from a recent position even if all events
                # are for others. Nothing waits, so the client has everything up to here.
                await send_part(send, f":\nid: {self._position()}".encode() + id_end)
            try:
                async with asyncio.timeout(self._heartbeat):
                    await self._has_news.wait()
            except TimeoutError:
                is_idle = True
            else:
                is_idle = False
        end = self._last + self._own.last
        await send({"type": "http.response.body", "body": end, "more_body": False})


def stop_later(sending: asyncio.Task[None]) -> None:
    """Cancel sending after some seconds, in case the client does not read."""
    timer = sending.get_loop().call_later(END_SECONDS, sending.cancel)
    sending.add_done_callback(lambda _: timer.cancel())


async def until_either_ends(
    sending: asyncio.Task[None],
    receive: Receive,
    expires: float | None,
    end: Callable[[str], None],
) -> None:
    """Wait until a stream has been sent, or its client has gone.

    Args:
        sending: Sends the stream.
        receive: Of the ASGI request.
        expires: When the stream ends, in seconds since 1970; None for never.
        end: Ends the stream, with a reason or ``""``.

    Raises:
        Exception: Whatever ``sending`` raises, but for a client that has gone.
    """

    async def disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.create_task(disconnect(), name="the end of a stream")
    try:
        left = None if expires is None else max(0, expires - time.time())
        tasks = (sending, leaving)
        done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            end("expired")
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        end("")
        for task in (sending, leaving):
            task.cancel()
        # It is no error that a client has gone. Other errors are raised, and get into the log.
        with suppress(asyncio.CancelledError, OSError):
            await sending


async def send_head(_: Scope, __: Receive, send: Send) -> None:
    """Respond to HEAD with the headers of a stream."""
    await send(start_of_stream())
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def start_of_stream() -> Message:
    """Return the head of a stream."""
    return {"type": "http.response.start", "status": 200, "headers": [*_HEADERS]}


async def send_part(send: Send, part: bytes) -> None:
    """Send the next bytes of a stream."""
    await send({"type": "http.response.body", "body": part, "more_body": True})
