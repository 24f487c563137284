"""Channels: which connections get which events, and the way of an event to its connections.

A service publishes an event (`Channels.publish`), or a bus brings it from another process
(`Channels.receive`). The publisher of the service, a function of the application, returns channels
for it. Then each connection in these channels gets it, once. Channels know no transport.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from base64 import urlsafe_b64encode  # `secrets` is slow to import, and clients import this, too
from collections import deque
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Coroutine,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias, cast

from alula._channels._publishers import (
    Publisher,
    PublisherTable,
    PublishingService,
    check_event_of_any,
    warn_about_publishers,
)
from alula._connection import (
    NO_VALUES,
    Connection,
    Event,
    EventServer,
    client_key,
    is_outdated_call,
)
from alula._context import HookContext, Params
from alula._shares import Shares
from alula._user_code import describe_frames, is_cancelled, name_of
from alula.outgoing import public_part
from alula.types import COLLECTION_TYPES, is_mapping

__all__ = [
    "GAP_OF_LISTS",
    "Channel",
    "Channels",
    "EventRecorder",
    "Follower",
    "ListFigures",
    "Targets",
]

Predicate: TypeAlias = Callable[[Connection], object]
Members: TypeAlias = dict[str, dict[Connection, None]]
"""The connections of all channels by name, in the order in which they joined."""

Follower: TypeAlias = Callable[[str, Any, HookContext], object]
"""``(event, record, context)``, a plain function: gets the events of a service in all processes."""

_log: Final = logging.getLogger("alula.events")

_SIGNAL_PATH: Final = ""  # of events between processes that are not events of a service

GAP_OF_LISTS: Final = "live/gap"
"""The signal that live lists may have missed a change; events are not affected."""

PUBLISHER_SECONDS: Final = 5.0
"""How long an asynchronous publisher may take. Later events wait for it, to keep their order."""

MAX_WAITING: Final = 10_000
"""How many events of one process may wait for publishers; one client may have half of them."""


# -- channels --------------------------------------------------------------------------------------


class Channel:
    """The connections of one or several names: ``app.channel("rooms/a", "rooms/b")``.

    A channel is a view. A name without connections needs no memory.

    Args:
        members: The connections of all channels.
        names: The names.
        predicates: Only connections for which all of these return a true value belong to it.
        data: What to send instead of the record, None for the record.

    Attributes:
        names: As given.
        data: As given.

    Examples:
        >>> from alula import App
        >>> app = App()
        >>> room = app.channel("rooms/a")
        >>> len(room), room.connections, app.channels
        (0, [], [])
    """

    __slots__ = ("_members", "_predicates", "data", "names")

    def __init__(
        self,
        members: Members,
        names: tuple[str, ...],
        predicates: tuple[Predicate, ...] = (),
        data: object = None,
    ) -> None:
        self._members = members
        self.names = names
        self._predicates = predicates
        self.data = data

    def __repr__(self) -> str:
        return f"app.channel({', '.join(map(repr, self.names))})"

    def join(self, *connections: Connection | None) -> Self:
        """Add connections; None and closed ones are skipped.

        ``params.connection`` is None for a REST call.

        Raises:
            TypeError: Something is not a connection.
        """
        for connection in connections:
            if connection is None:
                continue
            if not isinstance(connection, Connection):
                raise TypeError(
                    f"join({connection!r}): only connections join a channel; the connection of a"
                    " call is context.params.connection"
                )
            if is_outdated_call(connection):
                _log.warning(
                    "a call began before its user signed out: %r does not join %r", connection, self
                )
            elif connection.is_open:  # nothing would ever remove a closed one
                names = connection._names  # noqa: SLF001  # only this file uses them
                for name in self.names:
                    members = self._members.setdefault(name, {})
                    if connection not in members:
                        members[connection] = None
                        names[name] = (*names.get(name, ()), self._members)
                        connection.joined_at = time.time()
                        connection.changed()
        return self

    def leave(self, *connections: Connection | Predicate | None) -> Self:
        """Remove connections, or all for which a function returns a true value.

        Raises:
            TypeError: Something is neither a connection nor a function.
        """
        for given in connections:
            if isinstance(given, Connection):
                leaving = [given]
            elif callable(given):
                leaving = [connection for connection in self.connections if given(connection)]
            elif given is None:
                continue
            else:
                raise TypeError(f"leave({given!r}) takes connections, or a function of one")
            for connection in leaving:
                for name in self.names:
                    _remove(connection, name, self._members)
        return self

    def filter(self, predicate: Predicate) -> Channel:
        """Return this channel with only those connections for which a function returns true.

        Raises:
            TypeError: It is not a function.
        """
        if not callable(predicate):
            raise TypeError(f"filter({predicate!r}) takes a function of one connection")
        return Channel(self._members, self.names, (*self._predicates, predicate), self.data)

    def send(self, data: object) -> Channel:
        """Return this channel with data to send instead of the record; None sends the record."""
        return Channel(self._members, self.names, self._predicates, data)

    @property
    def connections(self) -> list[Connection]:
        """The connections, each once."""
        if len(self.names) == 1:  # most channels
            found: Iterable[Connection] = self._members.get(self.names[0], ())
        else:
            found = dict.fromkeys(c for name in self.names for c in self._members.get(name, ()))
        if not self._predicates:
            return list(found)
        return [c for c in found if all(keeps(c) for keeps in self._predicates)]

    def __contains__(self, connection: object) -> bool:
        return (
            isinstance(connection, Connection)
            and any(connection in self._members.get(name, ()) for name in self.names)
            and all(keeps(connection) for keeps in self._predicates)
        )

    def __len__(self) -> int:
        return len(self.connections)


def _leave_all(connection: Connection, kept: Container[str]) -> None:
    """Remove a connection from its channels, also from those of other applications.

    Args:
        connection: The connection.
        kept: Names of channels that it stays in.
    """
    names = connection._names  # noqa: SLF001  # only this file uses them
    for name, tables in [*names.items()]:
        if name not in kept:
            for members in tables:
                _remove(connection, name, members)


def _remove(connection: Connection, name: str, members: Members) -> None:
    named = members.get(name)
    if named is None or connection not in named:
        return
    del named[connection]
    if not named:
        del members[name]
    names = connection._names  # noqa: SLF001  # only this file uses them
    names[name] = tuple(table for table in names[name] if table is not members)
    if not names[name]:
        del names[name]
    connection.changed()


def _channels_in(returned: Any) -> list[Channel]:
    """Return the channels in lists of any depth, without None and False.

    Raises:
        TypeError: There is something else.
    """
    if isinstance(returned, Channel):
        return [returned]
    if returned is None or returned is False:
        return []
    if isinstance(returned, COLLECTION_TYPES):
        return [channel for item in returned for channel in _channels_in(item)]
    raise TypeError(f"returned {returned!r}; return app.channel(...), a list of channels, or None")


# -- events ----------------------------------------------------------------------------------------


Targets: TypeAlias = Sequence[tuple[Channel, Event]]
"""The channels that a publisher returned for an event, each with the event as it gets it."""


class EventRecorder(Protocol):
    """What channels and a bus need of an event log (`alula.realtime`)."""

    @property
    def oldest(self) -> float:
        """The log keeps no events from before that time."""
        ...

    def advance(self, origin: str, sequence: int, time: float | None = None) -> None:
        """Count an event of a process. Called for every event, in their order."""
        ...

    def record(self, targets: Targets, time: float | None = None) -> None:
        """Keep an event, and set its position, before it is sent."""
        ...

    def begin_recall(self) -> None:
        """Expect earlier events from a bus."""
        ...

    def end_recall(self, complete_since: float) -> None:
        """Note since when the events of all processes are known."""
        ...


class _WaitingEvent(NamedTuple):
    """An event that waits until all events before it were sent.

    Attributes:
        event: The event.
        publisher: Its publisher.
        returned: What the publisher returned, or a future of it.
        client: Who caused the event, None for the server itself.
        is_counted: Whether it counts against the share of the client.
    """

    event: Event
    publisher: Publisher
    returned: object
    client: Hashable | None
    is_counted: bool


class _WaitingEvents:
    """The events of one process that wait for an asynchronous publisher, in their order.

    Each client has a share of the room, so a flood from one client does not drop the events of
    others.
    """

    def __init__(self) -> None:
        self._events: deque[_WaitingEvent] = deque()
        self._shares = Shares(MAX_WAITING)

    def __len__(self) -> int:
        return len(self._events)

    def has_room(self, client: Hashable | None) -> bool:
        """Tell whether another event of a client may wait."""
        return self._shares.has_room(client, 1)

    def append(
        self, event: Event, publisher: Publisher, returned: object, client: Hashable | None
    ) -> None:
        """Add an event at the end."""
        # There may be no room any more, if the publisher itself has published further events.
        is_counted = self._shares.take(client, 1)
        self._events.append(_WaitingEvent(event, publisher, returned, client, is_counted))

    @property
    def first(self) -> _WaitingEvent:
        """The event that is sent next."""
        return self._events[0]

    def pop(self) -> None:
        """Remove the first event."""
        removed = self._events.popleft()
        if removed.is_counted:
            self._shares.give_back(removed.client, 1)


@dataclass
class ListFigures:
    """How many live lists there are, and what they cost, for metrics.

    Attributes:
        lists: Open lists.
        groups: Those of them that differ; equal lists share their reads.
        reads: Calls of `find` for them so far.
        dismissed: How often a change was found not to concern a group.
    """

    lists: int = 0
    groups: int = 0
    reads: int = 0
    dismissed: int = 0


class Channels:
    """The channels, connections and events of one application.

    Args:
        services: The services by path.
        start: Starts a task with a name; the application waits for it when it stops.

    Attributes:
        publishers: The application's, for services without their own.
        origin: A random name of this process.
        forward: Gives an event to other processes; set by a bus. It never waits and never raises.
            None without a bus.
        log: Keeps events for clients that come back; None without one.
        connections: The open connections that were added, by id.
        servers: Where clients get the events; transports add themselves.
        published: How many events were sent to channels here, for metrics.
        sent: How many messages connections got: one for each event and connection.
        list_figures: Of the live lists; None where there are none.
    """

    def __init__(
        self,
        services: Mapping[str, PublishingService],
        start: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._services = services
        self._start = start
        self.publishers = PublisherTable(
            "the application", lambda event: check_event_of_any(event, services)
        )
        self.origin = urlsafe_b64encode(os.urandom(6)).decode()
        self.forward: Callable[[Event], None] | None = None
        self.log: EventRecorder | None = None
        self.connections: dict[str, Connection] = {}
        self.servers: list[EventServer] = []
        self.published = self.sent = 0
        self.list_figures: ListFigures | None = None
        self._members: Members = {}
        self._followers: dict[str, list[Follower]] = {}
        self._signal_listeners: dict[str, list[Callable[[Any], object]]] = {}
        self._gap_listeners: list[Callable[[], object]] = []
        self._sequence = 0
        # By origin: events that wait for an asynchronous publisher, their own or an earlier one.
        self._waiting: dict[str, _WaitingEvents] = {}

    # -- connections ---------------------------------------------------------------------------

    def channel(self, *names: str | Iterable[str]) -> Channel:
        """Return the channel of these names.

        Raises:
            TypeError: There are no names, or one of them is not a string.
        """
        if not names:
            raise TypeError("app.channel() needs at least one name: app.channel('everyone')")
        listed: list[str] = []
        for given in names:
            is_list = isinstance(given, Iterable) and not isinstance(given, str)
            for name in given if is_list else [given]:
                if not isinstance(name, str):
                    raise TypeError(
                        f"app.channel({name!r}): the name of a channel is a string, such as"
                        " app.channel(f'rooms/{room_id}')"
                    )
                listed.append(name)
        return Channel(self._members, tuple(dict.fromkeys(listed)))

    @property
    def names(self) -> list[str]:
        """The names of the channels that have connections."""
        return list(self._members)

    def leave_all(self, connection: Connection, kept: Container[str] = ()) -> None:
        """Remove a connection from all its channels.

        Args:
            connection: The connection.
            kept: Names of channels that it stays in.
        """
        _leave_all(connection, kept)

    # -- publishers ----------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether anybody can get events: a connection, a follower, a log, another process."""
        return bool(self.connections or self.forward or self.log or self._followers)

    def resolve(
        self, path: str, events: Iterable[str], own: PublisherTable
    ) -> dict[str, Publisher]:
        """Return the publisher of each event that has one.

        Args:
            path: The path of a service.
            events: The names of its events.
            own: Its publishers, which take precedence over those of the application.
        """
        nobody = _publish_to_nobody if path in self._followers else None
        found = {event: own.find(event) or self.publishers.find(event) for event in events}
        return {
            event: publisher
            for event, own_publisher in found.items()
            if (publisher := own_publisher or nobody) is not None
        }

    def follow(self, path: str, listener: Follower) -> None:
        """Call ``listener(event, record, context)`` for events of a service in all processes.

        The service needs no publisher. For an event of another process, ``context.params`` has
        only the query, the provider and the user's id.
        """
        self._followers.setdefault(path, []).append(listener)
        self.resolve_publishers()

    def resolve_publishers(self) -> None:
        """Have all services look up their publishers again."""
        for service in self._services.values():
            service.resolve_publishers()

    def check_publishers(self, transports: Iterable[str]) -> None:
        """Log missing and useless publishers at the start; see `warn_about_publishers`."""
        warn_about_publishers(self._services, self.publishers, transports)

    # -- events of this process ----------------------------------------------------------------

    def publish(
        self,
        service: PublishingService,
        name: str,
        record: object,
        data: object,
        context: HookContext,
    ) -> None:
        """Publish an event of this process.

        Args:
            service: The service; its ``publishers`` have one for the event.
            name: The name of the event.
            record: The record as the application sees it.
            data: The record for clients. Its redacted parts are removed here.
            context: The context of the call.
        """
        if not self.is_active:
            return
        params, forward = context.params, self.forward
        route: Mapping[str, str] = params.__dict__.get("route") or NO_VALUES
        event = self._event(service.path, name, record, public_part(data), route)
        if forward is not None:
            event.method, event.id = context.method, context.id
            event.query, event.provider = dict(params.query), params.provider
            event.user = _record_of_id(params.get("user"))
            forward(event)
        self._publish(event, service.publishers[name], context)

    def publish_custom(
        self, service: PublishingService, name: str, values: Sequence[object]
    ) -> None:
        """Publish an event that a service emitted itself with these values."""
        record = values[0] if values else None
        if len(values) > 1 and isinstance(values[1], HookContext):
            context: HookContext = cast("Any", values[1])  # else its type arguments are unknown
        else:
            context = HookContext(service.app, service, "", Params())
            context.event, context.result = name, record
        self.publish(service, name, record, record, context)

    def _event(
        self, path: str, name: str, record: object, data: object, route: Mapping[str, str]
    ) -> Event:
        self._sequence += 1
        return Event(
            path,
            name,
            record,
            data,
            origin=self.origin,
            sequence=self._sequence,
            route=route,
            query=NO_VALUES,  # given, since a default is made by a call
        )

    # -- events of other processes -------------------------------------------------------------

    def receive(self, event: Event) -> None:
        """Publish an event of another process to the connections here; a bus calls this."""
        if event.origin == self.origin:
            return
        if event.path == _SIGNAL_PATH:
            for listener in self._signal_listeners.get(event.name, ()):
                listener(event.record)
        found = self._publisher_and_context(event)
        if found is None:
            self._send_in_turn(event, _publish_to_nobody, None)
        else:
            self._publish(event, *found)

    async def recall(self, event: Event, time: float) -> None:
        """Add an event from before this process listened to the log. No connection gets it.

        Args:
            event: The event of another process.
            time: When it was published, in seconds since 1970.
        """
        if self.log is None:
            return
        self.log.advance(event.origin, event.sequence, time)
        found = self._publisher_and_context(event)
        if found is None:
            return
        publisher, context = found
        returned = _call(publisher, event, context)
        if isinstance(returned, Awaitable):
            try:
                returning = cast("Awaitable[object]", returned)  # else its result is unknown
                returned = await asyncio.wait_for(returning, PUBLISHER_SECONDS)
            except (Exception, asyncio.CancelledError):  # as when it was published
                if is_cancelled():
                    raise
                _log_failure(publisher, event)
                return
        targets = _targets(event, publisher, returned)
        if targets:
            self.log.record(targets, time)

    def _publisher_and_context(self, event: Event) -> tuple[Publisher, HookContext] | None:
        """Return the publisher here for an event of another process, and its context."""
        service = self._services.get(event.path)
        if service is None or event.name not in service.publishers:
            return None
        route = dict(event.route)
        params = Params(query=event.query, provider=event.provider, user=event.user, route=route)
        context = HookContext(service.app, service, event.method, params, event.id)
        context.event, context.result = event.name, event.record
        return service.publishers[event.name], context

    def signal(self, topic: str, data: object) -> None:
        """Tell all other processes something that no client gets, such as whose sessions ended.

        Args:
            topic: What it is about; the listeners of other processes name it.
            data: Small JSON data.
        """
        if self.forward is not None:
            event = self._event(_SIGNAL_PATH, topic, data, data, NO_VALUES)
            self.forward(event)
            # The log must see every number, or it reports a gap.
            self._send_in_turn(event, _publish_to_nobody, None)

    def on_signal(self, topic: str, listener: Callable[[Any], object]) -> None:
        """Call ``listener(data)`` for signals of other processes; it must not raise."""
        self._signal_listeners.setdefault(topic, []).append(listener)

    def on_gap(self, listener: Callable[[], object]) -> None:
        """Call ``listener()`` when signals may have been missed; it must not raise."""
        self._gap_listeners.append(listener)

    def report_gap(self) -> None:
        """Say that events of other processes did not arrive; a bus calls this."""
        for listener in self._gap_listeners:
            listener()

    # -- from an event to its connections ------------------------------------------------------

    def _publish(self, event: Event, publisher: Publisher, context: HookContext) -> None:
        waiting = self._waiting.get(event.origin)
        if waiting is not None and not waiting.has_room(client_key(context.params)):
            # An event log notices the gap and tells clients to fetch their records again.
            text = "too many events wait for publishers; nobody gets %r of %r"
            _log.error(text, event.name, event.path)
            return
        for follower in self._followers.get(event.path, ()):
            try:
                follower(event.name, event.record, context)
            except Exception:  # noqa: BLE001  # must not fail the call that caused the event
                _log.exception("%s failed for an event of %r", name_of(follower), event.path)
        self._send_in_turn(event, publisher, _call(publisher, event, context), context)

    def _send_in_turn(
        self,
        event: Event,
        publisher: Publisher,
        returned: object,
        context: HookContext | None = None,
    ) -> None:
        """Send an event now, or after earlier ones whose asynchronous publishers still run."""
        waiting = self._waiting.get(event.origin)
        if isinstance(returned, Awaitable):
            returning = cast("Awaitable[object]", returned)  # else its result is unknown
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                if asyncio.iscoroutine(returning):
                    returning.close()  # else Python warns that it was never awaited
                _log.error(  # a stack trace would add nothing
                    "the publisher %s is asynchronous; emit %r of %r where an event loop is"
                    " running",
                    name_of(publisher),
                    event.name,
                    event.path,
                )
                return
            limited = asyncio.wait_for(returning, PUBLISHER_SECONDS)
            returned = loop.create_task(limited, name=f"the publisher {name_of(publisher)}")
            if waiting is None:
                waiting = self._waiting[event.origin] = _WaitingEvents()
                self._start(self._send_waiting(event.origin), "events that wait for publishers")
        if waiting is None:
            self._send(event, publisher, returned)
        else:
            client = None if context is None else client_key(context.params)
            waiting.append(event, publisher, returned, client)

    async def _send_waiting(self, origin: str) -> None:
        """Send the events of one process in order, each when its publisher has returned."""
        waiting = self._waiting[origin]
        try:
            while waiting:
                event, publisher, returned, *_ = waiting.first
                if isinstance(returned, asyncio.Future):
                    try:
                        returned = await cast("Awaitable[object]", returned)  # else unknown
                    except (Exception, asyncio.CancelledError):  # the call stands
                        if is_cancelled():
                            raise
                        _log_failure(publisher, event)
                        returned = None
                waiting.pop()
                self._send(event, publisher, returned)
        finally:
            del self._waiting[origin]

    def _send(self, event: Event, publisher: Publisher, returned: object) -> None:
        """Send an event to the connections of the channels that its publisher returned."""
        if self.log is not None:
            self.log.advance(event.origin, event.sequence)
        targets = _targets(event, publisher, returned)
        if not targets:
            return
        try:
            # All filters, which are functions of the application, run before the first message.
            reached = [(channel.connections, variant) for channel, variant in targets]
        except Exception:  # noqa: BLE001  # the call stands, as with a listener
            _log_failure(publisher, event)
            return
        if self.log is not None:
            self.log.record(targets)
        self.published += 1
        seen: set[Connection] = set()
        for connections, variant in reached:
            for connection in connections:
                # The first channel of a connection decides what it gets.
                if connection.is_open and connection not in seen:
                    connection.deliver(variant)
                    self.sent += 1
            if len(reached) > 1:  # few events have several channels
                seen.update(connections)


def _targets(event: Event, publisher: Publisher, returned: object) -> Targets:
    """Return the channels that a publisher has returned, each with the event as it gets it.

    If the publisher has returned something else, the log says so.
    """
    try:
        channels = _channels_in(returned)
    except TypeError as error:
        text = "the publisher %s %s; nobody gets the event %r of %r"
        _log.error(text, name_of(publisher), error, event.name, event.path)  # no stack of ours
        return ()
    return [
        (c, event if c.data is None else event.with_data(public_part(c.data))) for c in channels
    ]


def _call(publisher: Publisher, event: Event, context: HookContext) -> object:
    try:
        returned: object = publisher(event.record, context)
    except Exception:  # noqa: BLE001  # the call stands, as with a listener
        _log_failure(publisher, event)
        return None
    return returned


def _log_failure(publisher: Publisher, event: Event) -> None:
    text = "the publisher %s failed; nobody gets the event %r of %r"
    _log.exception(text, name_of(publisher), event.name, event.path)


describe_frames(_call, lambda names: f"publisher {name_of(names['publisher'])}")


def _publish_to_nobody(record: object, context: HookContext) -> None:
    """The publisher of services that have followers, but no publisher of their own."""


def _record_of_id(user: object) -> Mapping[str, Any] | None:
    """Return a record that has only the id of a user."""
    if is_mapping(user):
        return next(({name: user[name]} for name in ("id", "_id") if name in user), None)
    identity = getattr(user, "id", None)
    return None if identity is None else {"id": identity}
