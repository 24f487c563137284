"""Publishers, the functions that return the channels for an event, and what a bus carries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar, overload

from alula._context import HookContext
from alula._user_code import did_you_mean, name_of, unfit_signature
from alula.types import EVENT_OF_METHOD, UNSET, Record, Unset

__all__ = [
    "Publication",
    "Publisher",
    "PublisherTable",
    "Publishing",
    "PublishingService",
    "check_event_of_any",
    "event_records",
    "unlisted_event",
    "warn_about_publishers",
]

_log: Final = logging.getLogger("alula.events")

Publisher: TypeAlias = Callable[..., Any]
"""``(data, context)``, plain or asynchronous: returns a `Channel`, lists of channels, or None."""
AnyPublisher = TypeVar("AnyPublisher", bound=Publisher)


class PublishingService(Protocol):
    """A service as channels know it.

    Attributes:
        app: The application.
        path: The path.
        events: The names of its events.
        methods: Names of the methods that clients may call.
        publishers: The publisher of each event that has one, those of the application included.
        secret_events: Whether its events are never published.
    """

    app: Any
    path: str
    events: tuple[str, ...]
    methods: tuple[str, ...]
    publishers: Mapping[str, Publisher]
    secret_events: bool

    def resolve_publishers(self) -> None:
        """Set ``publishers`` again, after publishers or followers were added."""
        ...


Services: TypeAlias = Mapping[str, PublishingService]


@dataclass(slots=True)  # not frozen, which takes twice as long to make
class Publication:
    """What other processes get to know of an event: never headers or tokens.

    Attributes:
        path: The path of the service, "" for a signal (`Channels.signal`).
        event: The name of the event or signal.
        data: The record as the application sees it.
        public: What clients may see of it; ``data`` itself if that is all.
        method: The method that was called, "" for an event that the service emitted itself.
        id: The id that was given to the method.
        query: The query of the call.
        provider: The transport that the call came by, None for an internal call.
        user: The id of the user as a record, such as ``{"id": 7}``; None for nobody.
        origin: A random name of the process that publishes; it drops its own publications.
        sequence: The number of the publication, counted from 1 for each origin, without gaps.
        route: The values of the placeholders in the path.
    """

    path: str
    event: str
    data: Any
    public: Any
    method: str
    id: Any
    query: Mapping[str, Any]
    provider: str | None
    user: Mapping[str, Any] | None
    origin: str
    sequence: int
    route: Mapping[str, str] = field(default_factory=dict[str, str])


class PublisherTable:
    """Publishers by event; None for all events without one of their own.

    Args:
        owner: Of what they are, for messages.
        check_event: Refuses the name of an event that does not exist.
    """

    def __init__(self, owner: object, check_event: Callable[[str], None] | None = None) -> None:
        self._owner = owner
        self._check_event = check_event
        self._by_event: dict[str | None, Publisher] = {}

    def add(self, event: str | None, publisher: Publisher) -> None:
        """Register a publisher in place of the one that the event had.

        Raises:
            TypeError: It is not a function of ``(data, context)``.
            ValueError: There is no such event.
        """
        self.check(event)
        if not callable(publisher):
            raise TypeError(
                f"publish({event!r}, {publisher!r}): a publisher is a function of (data, context)"
            )
        if (signature := unfit_signature(publisher, "data", "context")) is not None:
            raise TypeError(
                f"the publisher {name_of(publisher)} of {self._owner!r} takes {signature};"
                " publishers are called with (data, context)"
            )
        self._by_event[event] = publisher

    def check(self, event: str | None) -> None:
        """Refuse the name of an event that does not exist.

        Raises:
            ValueError: There is no such event.
        """
        if event is not None and self._check_event is not None:
            self._check_event(event)

    @property
    def events(self) -> list[str]:
        """The events that have a publisher of their own."""
        return [event for event in self._by_event if event is not None]

    def find(self, event: str) -> Publisher | None:
        """Return the publisher of an event, or the one of all events."""
        return self._by_event.get(event) or self._by_event.get(None)


class Publishing:
    """The method ``publish`` of services and the application.

    Attributes:
        secret_events: Whether its events are never published; see `never_publish`.
        publishes_calls: Whether events of calls are published; False where the database tells of
            all changes.
        _own_publishers: Set by the class that inherits from this one.
    """

    secret_events: bool = False
    publishes_calls: bool = True
    _own_publishers: PublisherTable

    def resolve_publishers(self) -> None:
        """Look up the publishers of all events again; the class that inherits this does."""

    def never_publish(self) -> None:
        """Keep all events from clients and other processes, since they hold secrets."""
        self.secret_events = True
        self.resolve_publishers()

    @overload
    def publish(self, event: str, publisher: AnyPublisher) -> AnyPublisher: ...
    @overload
    def publish(self, event: str) -> Callable[[AnyPublisher], AnyPublisher]: ...
    @overload
    def publish(self, event: AnyPublisher) -> AnyPublisher: ...
    def publish(self, event: str | Publisher, publisher: Publisher | None = None) -> Publisher:
        """Register the function that returns the channels for an event, or for all events.

        Without a publisher, of the service or the application, no event leaves the server. What a
        publisher raises is logged; the call stands.

        Args:
            event: The name of the event, or the publisher of all events without one of their own.
            publisher: ``(data, context)``, plain or asynchronous. It returns a `Channel`, lists of
                channels in any depth, or None for nobody.

        Raises:
            TypeError: The publisher is not such a function.
            ValueError: The service emits no such event, or its events hold secrets.

        Examples:
            >>> from alula import App
            >>> from alula.adapters.memory import MemoryService
            >>> app = App().use("messages", MemoryService())
            >>> @app.service("messages").publish("created")
            ... def to_room(data, context):
            ...     return app.channel(f"rooms/{data['room']}")
        """
        if self.secret_events:
            raise ValueError(f"events of {self!r} hold secrets, such as tokens; publish others")
        if not isinstance(event, str):  # @service.publish
            self._own_publishers.add(None, event)
            self.resolve_publishers()
            return event
        if publisher is None:  # @service.publish("created")
            # Now, since nobody decorates with publish("everyone"), the name of a channel.
            self._own_publishers.check(event)
            return partial(self.publish, event)
        self._own_publishers.add(event, publisher)
        self.resolve_publishers()
        return publisher


def unlisted_event(service: PublishingService, event: str) -> str:
    """Say that a service does not list an event, and what to do."""
    hint = did_you_mean(event, service.events) or ";"
    return (
        f"{service!r} emits no event {event!r}{hint} it emits {', '.join(service.events)};"
        f" others are listed: use({service.path!r}, service, events=[{event!r}])"
    )


def check_event_of_any(event: str, services: Services) -> None:
    """Refuse the event of a publisher of the application if its name is likely a mistake.

    Other names pass: a service that emits the event may be registered later.

    Raises:
        ValueError: It is the path of a service, or close to the name of an event.
    """
    known = {*EVENT_OF_METHOD.values()}.union(*(service.events for service in services.values()))
    if event in known:
        return
    if event in services:
        raise ValueError(
            f"app.publish({event!r}, ...) takes the name of an event, not of a service:"
            f" app.service({event!r}).publish(publisher)"
        )
    if hint := did_you_mean(event, known, 0.8):
        raise ValueError(
            f"no service emits an event {event!r}{hint} If not, register the service that lists it"
            f" first: app.use(path, service, events=[{event!r}])"
        )


def warn_about_publishers(
    services: Services, of_app: PublisherTable, transports: Iterable[str]
) -> None:
    """Log publishers that never run, and that there is none where clients wait for events.

    Args:
        services: The services by path.
        of_app: The publishers of the application.
        transports: Names of what carries calls and events to clients.
    """
    emitting = [service for service in services.values() if not service.secret_events]
    for event in of_app.events:
        if not any(event in service.events for service in emitting):
            _log.warning(
                "the publisher of the application for %r never runs: no service emits it; list it"
                " where its service is registered: app.use(path, service, events=[%r])",
                event,
                event,
            )
    real_time = [name for name in transports if name != "rest"]
    silent = [
        service.path
        for service in emitting
        if not EVENT_OF_METHOD.keys().isdisjoint(service.methods)
        or len(service.events) > len(EVENT_OF_METHOD)
    ]
    if real_time and silent and not any(service.publishers for service in emitting):
        _log.warning(
            "%s is configured, but no service has a publisher, so clients get no events; write"
            " @app.service(%r).publish, or @app.publish for all services; if only calls are"
            " wanted: app.publish(lambda data, context: None)",
            " and ".join(real_time),
            silent[0],
        )


def event_records(context: HookContext) -> Sequence[tuple[Any, Any]]:
    """Return the records of the events of a call, each with what clients get in its place.

    A list of results is one event for each record. Its ``context.dispatch`` may be a list as well:
    then each record has its own.
    """
    result: Record | list[Any] | None = context.result
    dispatch: Record | list[Any] | Unset | None = context.dispatch
    if not isinstance(result, list):
        return [(result, result if dispatch is UNSET else dispatch)]
    if dispatch is UNSET:
        return [(record, record) for record in result]
    if isinstance(dispatch, list) and len(dispatch) == len(result):
        return list(zip(result, dispatch, strict=True))
    return [(record, dispatch) for record in result]
