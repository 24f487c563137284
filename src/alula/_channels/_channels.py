"""The channels of one application: from an event to the messages of its connections."""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import urlsafe_b64encode  # `secrets` is slow to import, and clients import this, too
from collections.abc import (
    Awaitable,
    Callable,
    Container,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, Final, TypeAlias, cast

from alula._channels._channel import Channel, Members, leave_all
from alula._channels._deliveries import EventRecorder, delivery_of
from alula._channels._publishers import (
    Publication,
    Publisher,
    PublisherTable,
    PublishingService,
    check_event_of_any,
    warn_about_publishers,
)
from alula._channels._waiting_events import WaitingEvents
from alula._connection import NO_ROUTE, Connection, EventServer, client_key
from alula._context import HookContext, Params, RequestParams
from alula._user_code import describe_frames, is_cancelled, name_of
from alula.outgoing import public_part
from alula.types import is_mapping

__all__ = [
    "Channels",
    "Follower",
    "call_params",
]

Follower: TypeAlias = Callable[[str, Any, HookContext], object]
"""``(event, data, context)``, plain: gets the events of a service in all processes."""

_log: Final = logging.getLogger("alula.events")

_SIGNAL_PATH: Final = ""  # of publications that are no event of a service

PUBLISHER_SECONDS: Final = 5.0
"""How long an asynchronous publisher may take. Later events wait for it, to keep their order."""


class Channels:
    """The channels, connections and publications of one application.

    Args:
        services: The services by path.
        start: Starts a task with a name; the application waits for it when it stops.

    Attributes:
        publishers: Those of the application, for services without one of their own.
        origin: A random name of this process.
        forward: Gives a publication to other processes; set by a bus. It never waits and never
            raises. None without a bus.
        log: Keeps deliveries for clients that come back; None without one.
        connections: The open connections that were added, by id.
        servers: Where clients get the events; transports add themselves.
        published: How many events were published to channels here, for metrics.
        sent: How many messages connections got; an event is one for each connection.
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
        self.forward: Callable[[Publication], None] | None = None
        self.log: EventRecorder | None = None
        self.connections: dict[str, Connection] = {}
        self.servers: list[EventServer] = []
        self.published = self.sent = 0
        self._members: Members = {}
        self._followers: dict[str, list[Follower]] = {}
        self._signal_listeners: dict[str, list[Callable[[Any], object]]] = {}
        self._gap_listeners: list[Callable[[], object]] = []
        self._sequence = 0
        # By origin: events that wait for an asynchronous publisher, their own or an earlier one.
        self._waiting: dict[str, WaitingEvents] = {}

    # -- connections ---------------------------------------------------------------------------

    def channel(self, *names: str | Iterable[str]) -> Channel:
        """Return the channel of these names.

        Raises:
            TypeError: There are none, or one of them is not a string.
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
        """The names that somebody is in."""
        return list(self._members)

    def leave_all(self, connection: Connection, kept: Container[str] = ()) -> None:
        """Remove a connection from all its channels.

        Args:
            connection: The connection.
            kept: Names of channels that it stays in.
        """
        leave_all(connection, kept)

    # -- publishers ----------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether anything may get events: a connection, a follower, a log, another process."""
        return bool(self.connections or self.forward or self.log or self._followers)

    def resolve(
        self, path: str, events: Iterable[str], own: PublisherTable
    ) -> dict[str, Publisher]:
        """Return the publisher of each event that somebody may get.

        Args:
            path: The path of a service.
            events: The names of its events.
            own: Its publishers; they come before those of the application.
        """
        nobody = _publish_to_nobody if path in self._followers else None
        found = {event: own.find(event) or self.publishers.find(event) for event in events}
        return {
            event: publisher
            for event, own_publisher in found.items()
            if (publisher := own_publisher or nobody) is not None
        }

    def follow(self, path: str, listener: Follower) -> None:
        """Call ``listener(event, data, context)`` for events of a service in all processes.

        The service needs no publisher. For an event of another process, ``context.params`` has
        only the query, the provider and the user's id.
        """
        self._followers.setdefault(path, []).append(listener)
        self.resolve_publishers()

    def resolve_publishers(self) -> None:
        """Have all services resolve their publishers again."""
        for service in self._services.values():
            service.resolve_publishers()

    def check_publishers(self, transports: Iterable[str]) -> None:
        """Log what publishers lack, when the application starts; see `warn_about_publishers`."""
        warn_about_publishers(self._services, self.publishers, transports)

    # -- events --------------------------------------------------------------------------------

    def publish(
        self,
        service: PublishingService,
        event: str,
        data: object,
        public: object,
        context: HookContext,
    ) -> None:
        """Publish an event of this process.

        Args:
            service: The service; its ``publishers`` have one for the event.
            event: The name of the event.
            data: The record as the application sees it.
            public: The record for clients, whose redacted parts are removed here.
            context: The context of the call.
        """
        public = public_part(public)
        self._sequence += 1
        params, forward = context.params, self.forward
        publication = Publication(
            service.path,
            event,
            data,
            public,
            context.method,
            context.id,
            query=params.query if forward is None else dict(params.query),
            provider=params.provider,
            user=None if forward is None else _record_of_id(params.get("user")),
            origin=self.origin,
            sequence=self._sequence,
            route=params.get("route", NO_ROUTE),
        )
        if forward is not None:
            forward(publication)
        self._publish(publication, service.publishers[event], context)

    def publish_custom(
        self, service: PublishingService, event: str, values: Sequence[object]
    ) -> None:
        """Publish an event that a service emitted itself with these values."""
        data = values[0] if values else None
        if len(values) > 1 and isinstance(values[1], HookContext):
            context: HookContext = cast("Any", values[1])  # else its type arguments are unknown
        else:
            context = HookContext(service.app, service, "", Params())
            context.event, context.result = event, data
        self.publish(service, event, data, data, context)

    def receive(self, publication: Publication) -> None:
        """Publish an event of another process to the connections here; a bus calls this."""
        sent = publication
        if sent.origin == self.origin:
            return
        if sent.path == _SIGNAL_PATH:
            for listener in self._signal_listeners.get(sent.event, ()):
                listener(sent.data)
        found = self._publisher_and_context(sent)
        if found is None:
            self._take_turn(sent, _publish_to_nobody, None)
        else:
            self._publish(sent, *found)

    async def recall(self, publication: Publication, time: float) -> None:
        """Let the log know an event from before this process listened; nobody gets it now.

        Args:
            publication: The event, of another process.
            time: When it was published, in seconds since 1970.
        """
        if self.log is None:
            return
        self.log.advance(publication.origin, publication.sequence, time)
        found = self._publisher_and_context(publication)
        if found is None:
            return
        publisher, context = found
        returned = _call(publisher, publication, context)
        if isinstance(returned, Awaitable):
            try:
                returning = cast("Awaitable[object]", returned)  # else its result is unknown
                returned = await asyncio.wait_for(returning, PUBLISHER_SECONDS)
            except (Exception, asyncio.CancelledError):  # as when it was published
                if is_cancelled():
                    raise
                _log_failure(publisher, publication)
                return
        delivery = delivery_of(publication, publisher, returned)
        if delivery is not None:
            self.log.record(delivery, time)

    def _publisher_and_context(self, sent: Publication) -> tuple[Publisher, HookContext] | None:
        """Return what an event of another process is published by here, None for nothing."""
        service = self._services.get(sent.path)
        if service is None or sent.event not in service.publishers:
            return None
        route = dict(sent.route)
        params = Params(query=sent.query, provider=sent.provider, user=sent.user, route=route)
        context = HookContext(service.app, service, sent.method, params, sent.id)
        context.event, context.result = sent.event, sent.data
        return service.publishers[sent.event], context

    def signal(self, topic: str, data: object) -> None:
        """Tell all other processes something that no client gets, such as whose sessions ended.

        Args:
            topic: What it is about; the listeners of other processes name it.
            data: Small JSON data.
        """
        if self.forward is not None:
            self._sequence += 1
            publication = Publication(
                _SIGNAL_PATH,
                topic,
                data,
                data,
                "",
                None,
                query={},
                provider=None,
                user=None,
                origin=self.origin,
                sequence=self._sequence,
            )
            self.forward(publication)
            self._take_turn(publication, _publish_to_nobody, None)  # a log counts without gaps

    def on_signal(self, topic: str, listener: Callable[[Any], object]) -> None:
        """Call ``listener(data)`` for signals of other processes; it must not raise."""
        self._signal_listeners.setdefault(topic, []).append(listener)

    def on_gap(self, listener: Callable[[], object]) -> None:
        """Call ``listener()`` when signals may have been missed; it must not raise."""
        self._gap_listeners.append(listener)

    def report_gap(self) -> None:
        """Tell that publications of other processes did not arrive; a bus calls this."""
        for listener in self._gap_listeners:
            listener()

    def _publish(self, event: Publication, publisher: Publisher, context: HookContext) -> None:
        waiting = self._waiting.get(event.origin)
        if waiting is not None and not waiting.has_room(client_key(context.params)):
            # An event log sees the gap, and has clients fetch their records anew.
            text = "too many events wait for publishers; nobody gets %r of %r"
            _log.error(text, event.event, event.path)
            return
        for follower in self._followers.get(event.path, ()):
            try:
                follower(event.event, event.data, context)
            except Exception:  # noqa: BLE001  # must not fail the call that it follows
                _log.exception("%s failed for an event of %r", name_of(follower), event.path)
        self._take_turn(event, publisher, _call(publisher, event, context), context)

    def _take_turn(
        self,
        event: Publication,
        publisher: Publisher,
        returned: object,
        context: HookContext | None = None,
    ) -> None:
        """Deliver an event, behind those whose asynchronous publishers have not returned yet."""
        waiting = self._waiting.get(event.origin)
        if isinstance(returned, Awaitable):
            returning = cast("Awaitable[object]", returned)  # else its result is unknown
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                if asyncio.iscoroutine(returning):
                    returning.close()  # else Python warns that it was never awaited
                _log.error(  # the stack says nothing more
                    "the publisher %s is asynchronous; emit %r of %r where an event loop is"
                    " running",
                    name_of(publisher),
                    event.event,
                    event.path,
                )
                return
            # At once, and not when it is its turn: slow publishers run at the same time.
            returned = loop.create_task(asyncio.wait_for(returning, PUBLISHER_SECONDS))
            if waiting is None:
                waiting = self._waiting[event.origin] = WaitingEvents()
                self._start(self._publish_waiting(event.origin), "events that wait for publishers")
        if waiting is None:
            self._deliver(event, publisher, returned)
        else:
            client = None if context is None else client_key(context.params)
            waiting.append(event, publisher, returned, client)

    async def _publish_waiting(self, origin: str) -> None:
        """Deliver the events of one process in order, each when its publisher has returned."""
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
                self._deliver(event, publisher, returned)
        finally:
            del self._waiting[origin]

    def _deliver(self, event: Publication, publisher: Publisher, returned: object) -> None:
        """Send an event to the connections of the channels that its publisher returned."""
        if self.log is not None:
            self.log.advance(event.origin, event.sequence)
        delivery = delivery_of(event, publisher, returned)
        if delivery is None:
            return
        try:
            # Filters are functions of the application: they run before anybody gets anything.
            reached = [(channel.connections, message) for channel, message in delivery.targets]
        except Exception:  # noqa: BLE001  # the call stands, as with a listener
            _log_failure(publisher, event)
            return
        if self.log is not None:
            self.log.record(delivery)
        self.published += 1
        if len(reached) == 1:  # most events
            connections, message = reached[0]
            self.sent += len(connections)
            for connection in connections:
                connection.deliver(message)
            return
        seen: set[Connection] = set()
        for connections, message in reached:
            for connection in connections:
                if connection not in seen:  # the first channel decides what it gets
                    seen.add(connection)
                    connection.deliver(message)
        self.sent += len(seen)


def _call(publisher: Publisher, event: Publication, context: HookContext) -> object:
    try:
        returned: object = publisher(event.data, context)
    except Exception:  # noqa: BLE001  # the call stands, as with a listener
        _log_failure(publisher, event)
        return None
    return returned


def _log_failure(publisher: Publisher, event: Publication) -> None:
    text = "the publisher %s failed; nobody gets the event %r of %r"
    _log.exception(text, name_of(publisher), event.event, event.path)


describe_frames(_call, lambda names: f"publisher {name_of(names['publisher'])}")


def _publish_to_nobody(data: object, context: HookContext) -> None:
    """The publisher of events that have only followers."""


def _record_of_id(user: object) -> Mapping[str, Any] | None:
    """Return a record with nothing but the id of a user."""
    if is_mapping(user):
        return next(({name: user[name]} for name in ("id", "_id") if name in user), None)
    identity = getattr(user, "id", None)
    return None if identity is None else {"id": identity}


def call_params(connection: Connection, query: dict[str, Any], route: Mapping[str, str]) -> Params:
    """Return the params of a call over a connection, with the attributes of the connection.

    Raises:
        NotAuthenticated: The token of the connection has expired, and it is about to close.
    """
    if connection.sign_in is not None:
        connection.sign_in.check()
    params = RequestParams.__new__(RequestParams)  # its __init__ sets attributes one by one
    attributes = params.__dict__
    attributes.update(connection.__dict__)
    attributes["query"] = query
    attributes["route"] = route
    attributes["connection"] = connection
    return params
